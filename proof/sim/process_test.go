package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// A process is a client with its callers, from its first connection to its
// close or crash.
type process struct {
	world   *world
	name    string // as CLIENT LIST shows it
	random  *rand.Rand
	client  *redlock.Client
	set     int       // which masters it names
	masters []*master // these, as its client counts them
	lanes   []*lane   // one to each master of the world
	began   time.Time
	config  redlock.Config
	// handsOver says that its callers hand locks on. Then no token is read, and
	// a token has several holders: what the masters' keys say is not judged, but
	// for those that are left after the contest. So its locks must be short.
	handsOver bool

	ctx     context.Context // ends with the process
	end     context.CancelFunc
	workers []*worker
	stopped toggle // like SIGSTOP

	mu      sync.Mutex      // guards the following
	dead    bool            // it crashed; what its client still does is ignored
	granted bool            // a lock
	left    []*redlock.Hold // that Close must end

	closed bool
}

// A lane is the way from one process to one master.
type lane struct {
	link     *redistest.Link
	calm     calm
	up, down time.Duration
	// Several faults may use these at a time.
	holdUp, holdDown, refuse, holdDials toggle
}

func (l *lane) roundTrip() time.Duration { return l.up + l.down }

// occupy runs one process after another in one place, until the contest is
// over. The last one stays.
func (w *world) occupy(place int) {
	for life := 0; ; life++ {
		p := w.newProcess(place, life)
		p.work()
		if w.ctx.Err() != nil && !p.isDead() && !p.hasLeft() {
			return
		}
		if !p.isDead() {
			p.close()
		}
		if w.ctx.Err() != nil {
			w.newProcess(place, life+1) // for what comes after the contest
			return
		}
	}
}

func (w *world) newProcess(place, life int) *process {
	p := &process{world: w, name: fmt.Sprintf("p%d.%d", place, life), random: w.draw.random(1, uint64(place), uint64(life))}
	p.set, p.began = place%2, time.Now()
	p.masters = w.set(p.set)
	for _, m := range w.masters {
		addr := m.addrFor(p.name)
		m.node.Serve(w.network.Listen(addr))
		p.lanes = append(p.lanes, newLane(w.network.At(addr), span(p.random, w.draw.latency), span(p.random, w.draw.latency)))
	}
	p.stopped.turn = p.stopOrContinue
	p.ctx, p.end = context.WithCancel(w.ctx)
	p.config = p.configure()
	client, err := redlock.New(context.Background(), p.config)
	if err != nil {
		panic(err) // the simulation itself is wrong
	}
	p.client = client
	workers := w.draw.workers
	if p.handsOver {
		workers += 3 // so that some wait
	}
	for i := range workers {
		p.workers = append(p.workers, &worker{
			process: p, index: i, random: w.draw.random(2, uint64(place), uint64(life), uint64(i)),
		})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives = append(w.lives, p)
	w.places[place] = p
	return p
}

func newLane(link *redistest.Link, up, down time.Duration) *lane {
	l := &lane{link: link, up: up, down: down}
	hold := func(d redistest.Direction) func(bool) {
		return func(on bool) {
			if on {
				link.Pause(d)
			} else {
				link.Resume(d)
			}
		}
	}
	l.holdUp.turn, l.holdDown.turn = hold(redistest.Up), hold(redistest.Down)
	l.refuse.turn, l.holdDials.turn = link.Refuse, link.HoldDials
	link.Latency(up, down)
	return l
}

// configure draws what may differ between the clients of a deployment, and sets
// what must be equal.
func (p *process) configure() redlock.Config {
	w := p.world
	var urls []string
	for _, m := range p.masters {
		urls = append(urls, m.url())
	}
	c := redlock.Config{
		Nodes: redlock.Nodes(urls...), Connect: redlock.Connect{NetDial: w.dialAs(p.name, p.set), ClientName: p.name, Timeout: dialTimeout}, Logger: quiet, Prefix: w.draw.prefix,
		NodeTimeout: w.draw.nodeTimeout, DriftFactor: w.draw.driftFactor, MinValidity: w.draw.minValidity,
		MaxTTL: w.draw.maxTTL, Retry: redlock.Retry{FailFast: p.random.IntN(4) == 0, Tries: [3]int{2: math.MaxInt32}[p.random.IntN(3)]},
		ReleaseOnClose: p.random.IntN(2) == 0,
		Tracer:         &redlock.Tracer{AttemptDone: w.tokens.attemptDone},
	}
	if p.random.IntN(6) == 0 {
		c.Retry.Tries = 1 + p.random.IntN(4)
		c.Retry.MinDelay, c.Retry.MaxDelay = ms, 5*ms // so close that the tries of several clients meet
	}
	p.handsOver = c.Retry.Tries == 0 && p.random.IntN(2) == 0 && w.draw.longest < steady
	if !p.handsOver {
		c.HandOver = -1
	} else if p.random.IntN(4) > 0 {
		c.HandOver = ms + span(p.random, 500*ms)
	}
	if w.draw.broken.noMaxTTL {
		c.MaxTTL = 0
	}
	c.Forgetful = c.MaxTTL == 0
	if c.Fenced = w.draw.fenced && p.random.IntN(3) > 0; c.Fenced {
		p.handsOver, c.HandOver = false, -1 // each grant has a number of its own
	}
	for i, m := range p.masters {
		c.Nodes[i].Durable = w.draw.durable[m.index]
	}
	return c
}

// dialTimeout is short, so that a handshake over a half-open connection does
// not use up the time after the faults.
const dialTimeout = 500 * ms

// work runs all workers until the process or the contest ends.
func (p *process) work() {
	lifetime := p.world.draw.contest
	if p.world.draw.restless {
		lifetime = 200*ms + span(p.random, 2*time.Second)
	}
	timer := time.AfterFunc(max(pure.Soon, lifetime), p.end)
	defer timer.Stop()
	var wg sync.WaitGroup
	for _, w := range p.workers {
		wg.Go(w.work)
	}
	wg.Wait()
}

// closeMost is how long Close may take: a second for pending calls, which wait
// for nothing here, and the vote timeout (R28).
const closeMost = time.Second + 60*ms

// close ends the process in an orderly way.
func (p *process) close() {
	w := p.world
	w.tally(p)
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	p.mu.Lock()
	if p.config.ReleaseOnClose {
		w.tokens.overNow(p.heldTokens(), p.connects())
	}
	p.mu.Unlock()
	err := p.client.Close(ctx)
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	if took := time.Since(start); took > closeMost || err != nil {
		w.violate("R28", "%s: Close took %v: %v", p.name, took, err)
	}
	if _, err := p.client.TryAcquire(context.Background(), "r", w.draw.longest); !errors.Is(err, redlock.ErrClosed) {
		w.violate("R28", "%s: an attempt after Close: %v", p.name, err)
	}
	w.leave(p)
	w.count("closes", 1)
}

// crash ends the process at once, without a chance to send anything. After an
// audible crash the system closes the sockets, so what was written still
// arrives, followed by the end. Otherwise the machine is gone, and the masters
// do not notice.
func (p *process) crash(audibly bool) {
	w := p.world
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	w.leave(p)
	for _, l := range p.lanes {
		l.refuse.on()
		if audibly {
			l.link.Break(0)
		} else {
			l.holdUp.on()
			l.holdDown.on()
		}
	}
	p.end()
}

// leave removes the process from its place.
func (w *world) leave(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if place := slices.Index(w.places, p); place >= 0 {
		w.places[place] = nil
	}
}

// running returns the processes that run now.
func (w *world) running() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*process
	for _, p := range w.places {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// leave leaves a hold to Close.
func (p *process) leave(h *redlock.Hold) {
	token := h.Current().Token()
	p.world.tokens.drop(token)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = append(p.left, h)
}

// heldTokens returns the tokens of the holds that Close must release. A lost
// one is not held: its keys stay until their TTL ends. The caller must hold the
// mutex.
func (p *process) heldTokens() (all []redlock.Token) {
	for _, h := range p.left {
		if h.Err() == nil {
			all = append(all, h.Current().Token())
		}
	}
	return all
}

func (p *process) hasLeft() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.left) > 0
}

func (p *process) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// stopOrContinue is SIGSTOP and SIGCONT, as far as they can be simulated:
// nothing arrives, nothing is sent, and the workers do nothing; but the
// client's own timers fire.
func (p *process) stopOrContinue(stop bool) {
	for _, l := range p.lanes {
		if stop {
			l.holdUp.on()
			l.holdDown.on()
		} else {
			l.holdUp.off()
			l.holdDown.off()
		}
	}
}

// awake waits while the process is stopped.
func (p *process) awake() {
	for p.stopped.isOn() {
		time.Sleep(ms)
	}
}

// tally adds the client's own counts to the report.
func (w *world) tally(p *process) {
	s := p.client.Stats()
	for name, n := range map[string]uint64{
		"attempts": s.Attempts.Total(), "held": s.Attempts.Held, "no quorum": s.Attempts.NoQuorum,
		"expired": s.Attempts.Expired, "cancelled": s.Attempts.Cancelled,
	} {
		w.count(name, int(n))
	}
	w.count("extensions and renewals", int(s.Extensions.Granted))
	for _, n := range p.client.Nodes() {
		w.count("connects", n.Connects)
		w.count("debts", int(n.Counts.DebtsMade))
	}
}
