package redistest

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// A Clock is the clock of a real server that was started with OwnClock. A test
// can change its rate and make it step while the server runs. A Restart of the
// server does not change it, as it does not change a machine's clock. Methods
// are safe for concurrent use, and take effect before they return.
//
// The clock is passed to the server in a small file that both map;
// testdata/clockshim describes it, and which clocks it covers.
type Clock struct {
	file string

	mu     sync.Mutex // guards the following
	memory []byte     // the file; nil after close
	number int64      // of the newest rule
	newest rule
}

// A rule is what holds for the server's clocks from a moment on; see the C
// source for it and for how it is published. Everything is nanoseconds: the
// moment of our CLOCK_MONOTONIC, the others of what is to be added to it.
type rule struct {
	from, steady, wall int64
	rate               int64 // for each second since then
}

// rules is the layout of the file.
type rules struct {
	begun, done atomic.Int64
	slots       [2]struct{ from, steady, wall, rate atomic.Int64 }
}

const (
	// lead is how long before it begins a rule is made. It must be published
	// before it begins, or readers that still went by the old one see their
	// time turn back; so that a busy machine, which may stop us in between, is
	// no matter.
	lead = 10 * time.Millisecond
	// The rates that make sense: a clock that stands still would stop the
	// server's timers for good.
	slowest, fastest = 0.01, 100
)

// OwnClock is an Option that gives each server a Clock. Where that cannot be
// had (see ClocksAvailable), Servers skips the test.
func OwnClock(o *Options) { o.OwnClock = true }

// Clock is the server's clock; nil if it was started without OwnClock.
func (s *Server) Clock() *Clock { return s.clock }

// SetRate has the clock run at a multiple of the machine's from now on: 1.01 is
// one percent fast. The time of day goes on without a step.
func (c *Clock) SetRate(rate float64) {
	if !(rate >= slowest && rate <= fastest) {
		panic(fmt.Sprintf("redistest: a clock cannot run at %v times the machine's", rate))
	}
	c.change(func(r *rule) { r.rate = int64(math.Round((rate - 1) * 1e9)) })
}

// Jump steps the time of day, forward or, with a negative step, back. Clocks
// that only ever go on do not step.
func (c *Clock) Jump(step time.Duration) {
	c.change(func(r *rule) { r.wall += int64(step) })
}

// Ahead returns how far the server's time of day is ahead of this process's.
func (c *Clock) Ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.newest.at(steadyNow()).wall - machineWall())
}

// change publishes the next rule, and returns when it has begun.
func (c *Clock) change(change func(*rule)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memory == nil {
		return // the server is closed
	}
	shared := c.shared()
	c.number++
	shared.begun.Store(c.number)
	slot := &shared.slots[c.number%2]
	var next rule
	for {
		begun := time.Now()
		next = c.newest.at(steadyNow() + int64(lead))
		change(&next)
		slot.from.Store(next.from)
		slot.steady.Store(next.steady)
		slot.wall.Store(next.wall)
		slot.rate.Store(next.rate)
		// Looked at without a system call, at whose end a busy machine likes to
		// stop us.
		if time.Since(begun) < lead/2 {
			break // else it took so long that the next one may come too late
		}
	}
	shared.done.Store(c.number)
	c.newest = next
	// The rule before this one is the next to be overwritten, which may be done
	// once no reader needs it any more.
	for rest := lead; rest > 0; rest = time.Duration(next.from - steadyNow()) {
		time.Sleep(rest)
	}
}

// at returns the same rule as seen from another moment. It is rounded up, so
// that no clock turns back by a nanosecond.
func (r rule) at(moment int64) rule {
	gained := int64(math.Ceil(float64(moment-r.from) * float64(r.rate) / 1e9))
	return rule{from: moment, steady: r.steady + gained, wall: r.wall + gained, rate: r.rate}
}

// shared needs the mutex.
func (c *Clock) shared() *rules { return (*rules)(unsafe.Pointer(unsafe.SliceData(c.memory))) }

// close is called when the server has ended.
func (c *Clock) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memory == nil {
		return nil
	}
	memory := c.memory
	c.memory = nil
	return unmapShared(memory)
}

// newClock puts the library and the file that governs it into the server's
// folder.
func newClock(dir string) (*Clock, error) {
	library, err := clockshim()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "clock.so"), library, 0o700); err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	c := &Clock{file: filepath.Join(dir, "clock")}
	if c.memory, err = mapShared(c.file, int(unsafe.Sizeof(rules{}))); err != nil {
		return nil, fmt.Errorf("redistest: clock: %w", err)
	}
	// Rule 0: the machine's time of day, at the machine's rate. No server reads
	// it yet.
	c.newest = rule{wall: machineWall()}
	c.shared().slots[0].wall.Store(c.newest.wall)
	return c, nil
}

// environ is what the server's process is started with. Whatever is preloaded
// already stays.
func (c *Clock) environ() []string {
	preload := filepath.Join(filepath.Dir(c.file), "clock.so")
	if before := os.Getenv("LD_PRELOAD"); before != "" {
		preload += ":" + before
	}
	return append(os.Environ(), "REDMUX_CLOCK="+c.file, "LD_PRELOAD="+preload)
}

// ErrNoClocks is wrapped by what ClocksAvailable returns.
var ErrNoClocks = errors.New("redistest: no server can be given a clock of its own here")

// ClocksAvailable says why servers cannot have clocks of their own here, as
// where there is no C compiler; nil if they can.
func ClocksAvailable() error {
	_, err := clockshim()
	return err
}

// requireClocks skips a test. It does so also where servers are required: a
// compiler is not a server.
func requireClocks(tb testing.TB) {
	tb.Helper()
	if err := ClocksAvailable(); err != nil {
		tb.Skipf("skipped: it needs servers with clocks of their own. %v", err)
	}
}

// clockshim is the library, compiled once in the life of this process: that
// takes a tenth of a second, and leaves nothing behind that could be stale or
// another's.
var clockshim = sync.OnceValues(func() ([]byte, error) {
	if !canPreload {
		return nil, fmt.Errorf("%w: it is done with LD_PRELOAD, on Linux", ErrNoClocks)
	}
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "..", "..", "testdata", "clockshim", "clockshim.c")
	if _, err := os.Stat(source); err != nil {
		return nil, fmt.Errorf("%w: this program was built without the paths of its source, or it was moved: %w", ErrNoClocks, err)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if _, err := exec.LookPath(compiler); err != nil {
		return nil, fmt.Errorf("%w: no C compiler: %w", ErrNoClocks, err)
	}
	dir, err := os.MkdirTemp("", "rt")
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	defer os.RemoveAll(dir)
	library := filepath.Join(dir, "clock.so")
	if out, err := exec.Command(compiler, "-shared", "-fPIC", "-O2", "-o", library, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w: %s", ErrNoClocks, compiler, err, out)
	}
	return os.ReadFile(library)
})
