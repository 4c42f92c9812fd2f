package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// workerVariable is set in the environment of client processes.
const workerVariable = "REDMUX_FAULTS_WORKER"

// WorkerMain must be called first by every main that calls Run, and by TestMain
// of its tests. In a process that Run started it does that process's work and
// never returns; in any other it returns at once.
func WorkerMain() {
	if os.Getenv(workerVariable) == "" {
		return
	}
	if err := work(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// userName is the user of the clients, so that faults can take rights from them
// only.
const userName = "redlock"

// prefix precedes all keys.
const prefix = "faults:"

// A worker is one client process.
type worker struct {
	setup
	teller
	counters
	push, poll *redlock.Client
	fenced     *redlock.Client // pushes too, and may lead
	semaphore  redlock.Locker  // of push
	parking    parking
	inspecting sync.Mutex
	attempt    atomic.Uint64 // numbers of attempts in the history
	broken     atomic.Uint64 // what a client that is wrong on purpose did
	round      atomic.Int64  // the latest rest
	silent     atomic.Pointer[silence]

	mu   sync.Mutex // guards the following
	held map[*redlock.Hold]struct{}
	left map[string]time.Time // digests of the tokens of locks that were dropped, and when their keys are gone
}

// silence is what ping came to with each node in a rest.
type silence struct {
	round int64
	nodes []string
}

// work does what the parent orders, until it orders to stop or is gone.
func work(in io.Reader, out io.Writer) error {
	w := &worker{
		teller: teller{clock: history.NewClock(), to: out},
		held:   make(map[*redlock.Hold]struct{}), left: make(map[string]time.Time),
	}
	w.parking.init()
	orders := bufio.NewScanner(in)
	orders.Buffer(nil, 1<<20)
	var working sync.WaitGroup
	for orders.Scan() {
		var o order
		if err := json.Unmarshal(orders.Bytes(), &o); err != nil {
			return fmt.Errorf("faults: an order: %w", err)
		}
		switch o.Do {
		case orderSetup:
			if err := w.begin(o.Setup, &working); err != nil {
				return err
			}
		case orderRest:
			w.round.Store(int64(o.Round))
			w.parking.rest()
		case orderGo:
			w.parking.goOn()
		case orderStop:
			return w.end(&working)
		}
	}
	return w.end(&working) // the parent is gone: what is held is released all the same
}

// begin makes the clients and starts the loads.
func (w *worker) begin(s *setup, working *sync.WaitGroup) (err error) {
	w.setup = *s
	if w.push, err = w.client(redlock.Config{Tracer: &redlock.Tracer{AttemptDone: w.asked}}); err != nil {
		return err
	}
	w.semaphore = w.push.Semaphore(w.breakPermits(permitKey), permits)
	if w.poll, err = w.client(redlock.Config{Retry: redlock.Retry{Tries: 1_000_000, MinDelay: time.Millisecond}}); err != nil {
		return err
	}
	if w.fenced, err = w.client(redlock.Config{Fenced: true, Owner: fmt.Sprint("process-", s.Name)}); err != nil {
		return err
	}
	working.Go(w.report)
	working.Go(w.ping)
	for i := range w.Callers {
		w.start(working, func() { w.loadUncontended(i) })
	}
	for i := range contenders {
		w.start(working, func() { w.loadContended(i) })
	}
	for i := range cancellers {
		w.start(working, func() { w.loadCancelled(i) })
	}
	for i := range holders {
		w.start(working, func() { w.loadHolds(i) })
	}
	for i := range fencers {
		w.start(working, func() { w.loadFenced(i) })
	}
	for i := range lockers {
		w.start(working, func() { w.loadLockers(i) })
	}
	w.start(working, w.loadElection)
	w.tell(&tale{Ready: true})
	return nil
}

// How many callers each process has besides those of the uncontended load.
const (
	contenders = 8
	cancellers = 4
	holders    = 5
	fencers    = 6
	lockers    = 8
)

// Numbers of callers in the history: those of a load follow those of the loads
// before it.
const (
	firstCanceller = contenders
	firstHolder    = firstCanceller + cancellers
	firstFencer    = firstHolder + holders
	firstLocker    = firstFencer + fencers
	candidate      = firstLocker + lockers
)

func (w *worker) start(working *sync.WaitGroup, load func()) {
	w.parking.add()
	working.Go(load)
}

// client makes a client of the nodes.
func (w *worker) client(config redlock.Config) (*redlock.Client, error) {
	config.Nodes, config.Prefix = redlock.Nodes(w.Nodes...), prefix
	config.Username, config.Password = userName, w.Password
	config.MaxTTL, config.Connect.NetDial, config.ReleaseOnClose = w.MaxTTL, redistest.Portable(w.Portable), true
	w.breakConfig(&config)
	return redlock.New(context.Background(), config)
}

func (w *worker) clients() []*redlock.Client { return []*redlock.Client{w.push, w.poll, w.fenced} }

// end stops the loads, closes the clients and tells the last figures.
func (w *worker) end(working *sync.WaitGroup) error {
	w.parking.stop()
	if w.fenced == nil {
		return nil // never begun
	}
	working.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	tally := w.counted()
	for _, c := range w.clients() {
		_ = c.Close(ctx)
	}
	w.tell(&tale{Tally: tally, Last: true})
	return nil
}

func (w *worker) counted() Tally {
	t := w.sum()
	// Renewals are not calls; the other extensions are the calls to Extend.
	granted := uint64(0)
	for _, c := range w.clients() {
		granted += c.Stats().Extensions.Granted
	}
	t[Renewals] = granted - min(granted, t[Extensions])
	t[HandedOver], t[Renumbered] = w.push.Stats().HandedOver, w.fenced.Stats().Renumbered
	return t
}

// report tells what the parent wants to know from time to time.
func (w *worker) report() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-w.parking.stopped:
			return
		case <-tick.C:
		}
		w.beat()
		if resting, _ := w.parking.state(); resting && i%2 == 0 {
			w.tell(&tale{Resting: w.state()})
		}
		if i%50 == 0 {
			w.tell(&tale{Tally: w.counted()})
		}
		if i%200 == 0 {
			w.tell(&tale{Sample: takeSample(w.clock.Now(), w.parking.full())})
		}
	}
}

// ping sends a command to every node over each connection while the process
// rests. An answer shows that all commands before it were answered too: a dead
// connection may look alive and still owe releases.
func (w *worker) ping() {
	for {
		select {
		case <-w.parking.stopped:
			return
		case <-time.After(20 * time.Millisecond):
		}
		if !w.parking.full() {
			continue
		}
		silent, round := make([]string, len(w.Direct)), w.round.Load()
		for _, c := range w.clients() {
			ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			answers, _ := admin.Inspect(ctx, c, "ping")
			cancel()
			for i, n := range answers.Nodes {
				if n.Err != nil {
					silent[i] = n.Err.Error()
				}
			}
		}
		w.silent.Store(&silence{round, silent})
	}
}

// barred marks a node that refuses the client's password or rights: it is
// dialed seldom (R26).
const barred = "refused us"

func isBarred(err error) bool {
	switch conn.ErrorClass(err) {
	case conn.ClassNoAuth, conn.ClassWrongPass, conn.ClassNoPerm:
		return true
	}
	return errors.Is(err, multiplex.ErrPermissions)
}

// state returns what is told while the process rests.
func (w *worker) state() *resting {
	round := w.round.Load()
	r := &resting{Round: int(round), Parked: w.parking.full(), Nodes: []string{"not asked yet"}}
	if silent := w.silent.Load(); silent != nil && silent.round == round {
		r.Nodes = slices.Clone(silent.nodes)
		for _, c := range w.clients() {
			for i, n := range c.Nodes() {
				switch {
				case n.State != "up" && isBarred(n.Err):
					r.Nodes[i] = fmt.Sprintf("%s: %s (%v)", n.State, barred, n.Err)
				case n.State != "up":
					r.Nodes[i] = fmt.Sprintf("%s (%v)", n.State, n.Err)
				case n.Debts > 0:
					r.Nodes[i] = fmt.Sprintf("%d debts", n.Debts)
				}
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for h := range w.held {
		token := h.Current().Token()
		digits := history.Digest(token[:])
		r.Held = append(r.Held, string(digits[:]))
	}
	for digest := range w.left {
		r.Held = append(r.Held, digest)
	}
	return r
}

// note adds an event of each resource to the history. Those of nameless callers
// have no token.
func (w *worker) note(kind history.Kind, b bid, lock redlock.Lock, until time.Time) {
	e := history.Event{Client: b.caller, Attempt: b.attempt, Ev: kind, Form: b.form, Permits: b.permits, From: b.from}
	if kind == history.Grant {
		e.Fence = w.breakNumber(lock.Fence())
	}
	if !until.IsZero() {
		e.Until = w.clock.At(until)
		if !nameless(b.caller) && kind != history.Queued {
			token := lock.Token()
			digits := history.Digest(token[:])
			e.Token = string(digits[:])
		}
	}
	for _, e.Resource = range b.resources {
		w.event(e)
	}
}

// attempts notes that an attempt begins.
func (w *worker) attempts(b bid) { w.note(history.Start, b, redlock.Lock{}, time.Time{}) }

// denied counts an attempt by what came of it. If it has no lock, that is noted
// and reported.
func (w *worker) denied(b bid, err error) bool {
	w.counters.attempt(err)
	if err != nil {
		w.note(refusal(err), b, redlock.Lock{}, time.Time{})
	}
	return err != nil
}

// nameless reports whether a caller does not read the tokens of its locks, which
// can therefore be handed over to other callers of its client. Half of those
// that wait for a release are nameless, and half of those that hold.
func nameless(caller int) bool { return caller%4 == 1 }

// odd tells a finding.
func (w *worker) odd(from time.Time, excusable bool, format string, args ...any) {
	w.tell(&tale{Oddity: &oddity{
		What: fmt.Sprintf("process %d: ", w.Name) + fmt.Sprintf(format, args...), Excusable: excusable,
		From: w.clock.At(from), To: w.clock.Now(),
	}})
}
