package machines

import (
	"time"
	"unsafe"

	"github.com/redmux/redmux/internal/pure"
)

// A clock runs at nearly the rate of true time. It computes in whole numbers,
// so that it reads the same on every machine.
type clock struct {
	ppm   int64         // how many millionths it is faster than true time
	base  time.Duration // its reading
	since time.Duration // at this true time
	still bool          // the clock is stopped
}

const million = 1_000_000

// at returns the clock's reading at a true time.
func (c *clock) at(now time.Duration) time.Duration {
	if c.still {
		return c.base
	}
	passed := now - c.since
	return c.base + passed + passed*time.Duration(c.ppm)/million
}

// when returns the first true time from now on at which the clock reads the
// given value, if it is not set meanwhile. The clock must not be stopped.
func (c *clock) when(reading, now time.Duration) time.Duration {
	left := reading - c.base
	passed := left * million / time.Duration(million+c.ppm)
	for c.at(c.since+passed) < reading {
		passed++
	}
	return max(now, c.since+passed)
}

// step sets the clock forward or back.
func (c *clock) step(by, now time.Duration) {
	c.base, c.since = c.at(now)+by, now
}

// stop and goOn are a suspend, as a monotonic clock sees it.
func (c *clock) stop(now time.Duration) { c.base, c.since, c.still = c.at(now), now, true }
func (c *clock) goOn(now time.Duration) { c.since, c.still = now, false }

// An instant is a reading of all clocks of a process, like the instant of
// package redlock.
type instant struct {
	at    time.Time // wall and monotonic
	slept time.Duration
}

// since returns the time since an earlier reading, by the clock that advanced
// most.
func (i instant) since(start instant) time.Duration {
	return max(pure.Elapsed(start.at, i.at), i.at.Sub(start.at)+i.slept-start.slept)
}

// ahead returns how far the other clocks have run ahead of the monotonic one
// since start.
func (i instant) ahead(start instant) (wall, slept time.Duration) {
	return i.at.Round(0).Sub(start.at.Round(0)) - i.at.Sub(start.at), i.slept - start.slept
}

// add returns the instant d later on every clock.
func (i instant) add(d time.Duration) instant { return instant{i.at.Add(d), i.slept} }

// left returns the time until this end by the clock that gives least. A plain
// lock reads two clocks, a hold three.
func (i instant) left(now instant, three bool) time.Duration {
	left := pure.Remaining(i.at, now.at)
	if three {
		left = min(left, i.at.Sub(now.at)-(now.slept-i.slept))
	}
	return left
}

// timeOf makes a time.Time of two independent readings. Package time cannot do
// that, since only a suspend or a step of the clock causes it; but the
// simulation must test what pure.Elapsed and pure.Remaining make of the two. It
// relies on the layout of time.Time, which has not changed since Go 1.9 and
// which TestTimeOf checks: a bit that says that there is a monotonic reading,
// 33 bits of seconds, 30 of nanoseconds, and then that reading.
func timeOf(monotonic, wall time.Duration) (t time.Time) {
	const someYear = 4_000_000_000 // seconds since 1885, with room on both sides
	wall += someYear * time.Second
	layout := (*struct {
		wall      uint64
		monotonic int64
		zone      *time.Location
	})(unsafe.Pointer(&t))
	layout.wall = 1<<63 | uint64(wall/time.Second)<<30 | uint64(wall%time.Second)
	layout.monotonic = int64(monotonic) + 1
	return t
}
