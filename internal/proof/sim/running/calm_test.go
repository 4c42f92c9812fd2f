package running

import (
	"sync"
	"time"
)

// A calm knows what is being done to a master or a lane, and since when nothing is any more. What is promised for healthy
// masters only (R7) is asked of those that were calm for as long as it takes.
type calm struct {
	mu       sync.Mutex // guards the following
	troubles int
	since    time.Time
}

func (c *calm) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.troubles++
}

// end is the end of a trouble, whose consequences may last for another while: a connection that nobody knows to be dead, a
// release that is tried again after a time.
func (c *calm) end(linger time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.troubles--
	if until := time.Now().Add(linger); until.After(c.since) {
		c.since = until
	}
}

// isSince reports that nothing was wrong from then on.
func (c *calm) isSince(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.troubles == 0 && !c.since.After(t)
}

// A toggle is something that several faults may want at a time: it is on as long as one does.
type toggle struct {
	turn func(on bool)

	mu     sync.Mutex // guards the following
	wanted int
}

func (s *toggle) on() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted++; s.wanted == 1 {
		s.turn(true)
	}
}

func (s *toggle) off() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted--; s.wanted == 0 {
		s.turn(false)
	}
}

func (s *toggle) isOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted > 0
}
