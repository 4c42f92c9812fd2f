package sim

import (
	"sync"
	"time"
)

// A calm records what is being done to a master or a lane, and since when
// nothing is. What is promised only for healthy masters (R7) is required of
// those that have been calm for long enough.
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

// end ends a trouble whose consequences may last for another while: a
// connection that is dead unnoticed, or a release that is retried later.
func (c *calm) end(linger time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.troubles--
	if until := time.Now().Add(linger); until.After(c.since) {
		c.since = until
	}
}

// isSince reports whether nothing has been wrong since t.
func (c *calm) isSince(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.troubles == 0 && !c.since.After(t)
}

// A toggle can be turned on by several faults: it is on as long as one of them
// wants it.
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
