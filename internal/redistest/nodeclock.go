package redistest

import (
	"sync"
	"time"
)

// NodeClock is the clock of a node in memory: the life of keys, PTTL, TIME and
// the uptime follow it. The zero NodeClock shows time.Now, and so does a nil
// one; a test can change its rate and make it step. A Delay or a Link does not
// depend on it. Methods are safe for concurrent use.
type NodeClock struct {
	mu    sync.Mutex // guards the following
	since time.Time  // when it was last set; zero: it never was
	shown time.Time  // what it showed then
	rate  float64    // its seconds per second of the world, since then
	told  func()     // if not nil, called when the clock is set
}

// Now is what the clock shows.
func (c *NodeClock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at(time.Now())
}

// SetRate makes the clock run at so many of its seconds per second from now on.
// The rate must be positive.
func (c *NodeClock) SetRate(rate float64) { c.set(func(float64) float64 { return rate }, 0) }

// Step makes the clock jump: forward, so that keys end early, or back, so that
// they live longer.
func (c *NodeClock) Step(d time.Duration) { c.set(func(rate float64) float64 { return rate }, d) }

// Lasts is how much of the world's time passes while the clock passes d at its
// rate of now.
func (c *NodeClock) Lasts(d time.Duration) time.Duration {
	if c == nil {
		return d
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() || c.rate == 1 {
		return d
	}
	return time.Duration(float64(d) / c.rate)
}

func (c *NodeClock) set(rate func(old float64) float64, step time.Duration) {
	c.mu.Lock()
	now := time.Now()
	old := c.rate
	if c.since.IsZero() {
		old = 1
	}
	c.shown, c.since = c.at(now).Add(step), now
	c.rate = rate(old)
	told := c.told
	c.mu.Unlock()
	if told != nil {
		told()
	}
}

// at is called with the lock held.
func (c *NodeClock) at(now time.Time) time.Time {
	if c.since.IsZero() {
		return now
	}
	passed := now.Sub(c.since)
	if c.rate != 1 {
		passed = time.Duration(float64(passed) * c.rate)
	}
	return c.shown.Add(passed)
}
