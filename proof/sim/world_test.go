package sim

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
)

// A world is one seed in its bubble: masters, lanes to them, clients, and the
// checkers.
type world struct {
	draw    *draw
	network *redistest.Network
	masters []*master
	begun   time.Time
	referee *referee
	tokens  *tokens
	sets    overlap

	// ctx ends with the contest, and at the first violation, since one is
	// enough.
	ctx  context.Context
	stop context.CancelFunc

	mu     sync.Mutex // guards the following
	report *report
	lives  []*process // all processes that ever ran
	places []*process // those that run, by place
}

// A master is a node with what the simulation knows about it.
type master struct {
	world  *world
	index  int
	node   *redistest.Node
	calm   calm
	pause  toggle  // the process is stopped
	absent toggle  // there is no process: dials are refused
	leaps  bool    // for broken: its clock is slow when it starts, and then set right
	away   [2]calm // from the clients of a set

	mu      sync.Mutex     // guards the following
	names   map[int]string // of clients, by the id of their connection
	stepped time.Time      // when its clock last stepped back
	flushed bool           // its scripts were flushed, and have not been loaded since
	forgot  time.Time      // when it last lost its keys
	sealed  pure.Identity  // the deployment that it was seen to belong to since then; zero if to none
	was     pure.Seal      // what it had then, if that was a set
}

// run simulates one seed, from its first connection to its last.
func run(t *testing.T, d *draw) *report {
	r := newReport()
	start := time.Now()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(d, r)
		defer w.close()
		w.contest()
		w.settle()
		w.end()
		r.simulated = time.Since(w.begun)
	})
	r.took = time.Since(start)
	return r
}

func newWorld(d *draw, r *report) *world {
	w := &world{
		draw: d, network: redistest.NewNetwork(), report: r, sets: overlap{known: make(map[string]bool)},
	}
	w.referee = &referee{world: w, held: make(map[string][]*tenure), numbers: make(map[string][]numbered)}
	w.tokens = newTokens(w)
	for i := range d.masters() {
		m := &master{world: w, index: i, node: redistest.NewNode(redistest.NodeConfig{}), names: make(map[int]string), leaps: d.broken.leaps}
		m.pause.turn = func(on bool) {
			if on {
				m.node.Pause()
			} else {
				m.node.Resume()
			}
		}
		m.absent.turn = func(bool) {}
		m.node.Clock().SetRate(d.rates[i])
		m.node.Clock().Step(d.offsets[i])
		m.node.Restart() // its uptime assumes that the clock does not step after the start (R29)
		if d.native {
			m.node.Native("DELEX")
		}
		teach(m.node, d.broken)
		d.broken.arrange(m)
		m.node.Handle(w.tokens.watch(m)) // the last hook is asked first
		w.masters = append(w.masters, m)
	}
	w.places = make([]*process, d.processes)
	time.Sleep(d.age)
	w.begun = time.Now()
	if d.founded && !d.broken.noMaxTTL {
		w.found()
	}
	w.ctx, w.stop = context.WithTimeout(context.Background(), d.contest)
	return w
}

// contest lets clients compete while faults strike, until its time is over and
// all faults are mended.
func (w *world) contest() {
	var wg sync.WaitGroup
	if w.draw.misfits {
		wg.Go(w.misfits)
	}
	for place := range w.draw.processes {
		wg.Go(func() { w.occupy(place) })
	}
	for i := range w.draw.misfortunes {
		m := &misfortune{world: w, random: w.draw.random(100, uint64(i))}
		wg.Go(m.strike)
	}
	if w.draw.fenced {
		wg.Go(w.operate)
	}
	wg.Go(w.lookAround)
	wg.Wait()
}

// lookAround checks again and again what must hold at any time.
func (w *world) lookAround() {
	for w.sleep(3*ms + 100*time.Microsecond) {
		w.referee.look()
		w.tokens.look()
		w.lookAtSeals()
	}
}

// sleep sleeps, and reports whether the contest goes on.
func (w *world) sleep(d time.Duration) bool {
	timer := time.NewTimer(max(pure.Soon, d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return w.ctx.Err() == nil
	case <-w.ctx.Done():
		return false
	}
}

// All clients know a master by the same address (R30), and each reaches it by a
// lane of its own.
func (m *master) url() string { return "redis://" + m.addr() }

func (m *master) addr() string { return fmt.Sprintf("node%d:6379", m.index) }

func (m *master) addrFor(client string) string { return fmt.Sprintf("node%d.%s:6379", m.index, client) }

// dialAs returns the NetDial of a client that names a set of masters: without a
// master's process there is no answer.
func (w *world) dialAs(client string, set int) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		var index int
		if _, err := fmt.Sscanf(addr, "node%d:", &index); err != nil {
			return nil, err
		}
		m := w.masters[index]
		if m.absent.isOn() || !m.away[set].isSince(time.Now()) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		return w.network.Dial(ctx, network, m.addrFor(client))
	}
}

// close ends what is left. All clients have been closed.
func (w *world) close() {
	w.stop()
	for _, m := range w.masters {
		m.node.Close()
	}
	w.network.Close()
}

// violate records a violation, and ends the contest.
func (w *world) violate(rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if only := w.draw.broken.only; only != "" && rule != only {
		return // a broken part shows in several ways
	}
	at := fmt.Sprintf("after %v: ", time.Since(w.begun).Round(10*time.Microsecond))
	w.report.violations = append(w.report.violations, violation{w.draw.seed, rule, at + fmt.Sprintf(format, args...)})
	w.stop()
}

func (w *world) count(name string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.counts[name] += n
}

func (w *world) fault(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.faults[name]++
}

// values returns the values of a master's keys that belong to locks. Each permit
// counts as a key of its own.
func (m *master) values() map[string]string {
	all := make(map[string]string)
	for _, key := range m.node.Keys() {
		if strings.HasSuffix(key, ":redlock:permits") {
			permits, _ := m.node.DB().Fields(key)
			for number, text := range permits {
				ends, value, ok := strings.Cut(text, " ")
				if ms, _ := strconv.ParseInt(ends, 10, 64); ok && ms > m.node.Clock().Now().UnixMilli() {
					all[key+" "+number] = value
				}
			}
		} else if !strings.HasSuffix(key, "redlock:seal") && !strings.HasSuffix(key, fenceSuffix) && !isOfLockers(key) {
			all[key], _ = m.node.Get(key)
		}
	}
	return all
}

// fenceSuffix ends the keys of last numbers and of the record of them.
const fenceSuffix = ":fence"

// holdsUntil returns when the key's life with this value ends, on the world's
// clock.
func (m *master) holdsUntil(key, value string) (end time.Time, ok bool) {
	if v, there := m.node.Get(key); !there || v != value {
		return time.Time{}, false
	}
	left, _ := m.node.DB().TTL(key)
	return time.Now().Add(m.node.Clock().Lasts(left)), true
}

// steppedSince reports whether the master's clock stepped back after that time.
func (m *master) steppedSince(t time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.stepped.Before(t)
}

// forgotSince reports whether the master lost its keys after that time.
func (m *master) forgotSince(t time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.forgot.Before(t)
}

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
