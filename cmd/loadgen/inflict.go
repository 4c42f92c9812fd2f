package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
)

// healing ends a fault: early, when the run has ended before the fault's time.
type healing func(early bool) error

// faultKinds are what can be done to a server for a time: each begins a fault and
// returns what ends it.
var faultKinds = map[string]func(*redistest.Server, *flags, time.Duration) (healing, error){
	"stop":   stopServer,
	"kill":   killServer,
	"pause":  pauseServer,
	"refuse": refuseClients,
}

func faultKindNames() []string { return slices.Sorted(maps.Keys(faultKinds)) }

// stopServer has the process execute nothing, and its kernel go on accepting
// connections and bytes for it, which it executes when it goes on.
func stopServer(s *redistest.Server, _ *flags, _ time.Duration) (healing, error) {
	return func(bool) error { return s.Continue() }, s.Stop()
}

// killServer ends the process; another one comes in its place, which is empty.
func killServer(s *redistest.Server, f *flags, _ time.Duration) (healing, error) {
	return func(bool) error { return restart(s, f) }, s.Kill()
}

func restart(s *redistest.Server, f *flags) error {
	if err := s.Restart(); err != nil {
		return err
	}
	return requirePassword(s, f)
}

// pauseServer has the server hold back all commands and their replies by itself,
// as one that is busy does. It cannot be told to go on before its time, since that
// would be a command: another one takes its place then.
func pauseServer(s *redistest.Server, f *flags, d time.Duration) (healing, error) {
	_, err := s.Do("CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10), "ALL")
	return func(early bool) error {
		if early {
			return restart(s, f)
		}
		return nil
	}, err
}

// refuseClients cuts all connections and takes the socket's name away, so that no
// new one can be made; the process and its keys stay.
func refuseClients(s *redistest.Server, f *flags, _ time.Duration) (healing, error) {
	e, err := conn.ParseURL(s.UnixURL())
	if err != nil {
		return nil, err
	}
	// This connection is made before the name goes, and survives.
	side := s.Side()
	defer side.Close()
	greeting := []string{"PING"}
	if f.password != "" {
		greeting = []string{"AUTH", userName(f.User), f.password}
	}
	if _, err := side.Do(greeting...); err != nil {
		return nil, err
	}
	hidden := e.Addr + ".off"
	if err := os.Rename(e.Addr, hidden); err != nil {
		return nil, err
	}
	heal := func(bool) error { return os.Rename(hidden, e.Addr) }
	if _, err := side.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
		return nil, errors.Join(err, heal(true))
	}
	return heal, nil
}

// faultResult is a fault as it was: its times are the measured ones.
type faultResult struct {
	AtS     float64 `json:"at_s"`
	LengthS float64 `json:"length_s"`
	Kind    string  `json:"kind"`
	Node    int     `json:"node"`

	at, length time.Duration
}

// inflictor makes the faults of one run.
type inflictor struct {
	phase   *phase
	servers []*redistest.Server
	say     func(format string, args ...any)
	working sync.WaitGroup

	mu      sync.Mutex // guards the following
	done    []faultResult
	notMade []string
	errs    []error
}

// startInflictor makes each fault at its time, from goroutines of their own: one
// that takes long, such as a restart, must not delay another.
func startInflictor(p *phase, servers []*redistest.Server, say func(string, ...any)) *inflictor {
	in := &inflictor{phase: p, servers: servers, say: say}
	for _, f := range p.flags.Fault {
		in.working.Go(func() { in.make(f) })
	}
	return in
}

// stop waits until all is healed. Then done has the faults that were made, by time.
// Faults that the end of the phase came before are not made, and told apart: a run
// with -n may be over sooner, and would look as if it had stood them. Those that
// the end came in are healed early.
func (in *inflictor) stop() error {
	in.working.Wait()
	slices.SortFunc(in.done, func(a, b faultResult) int { return cmp.Compare(a.at, b.at) })
	slices.Sort(in.notMade)
	return errors.Join(in.errs...)
}

func (in *inflictor) make(f fault) {
	p := in.phase
	select {
	case <-p.began:
	case <-p.quit:
		in.leftOut(f)
		return
	}
	elapsed := func() time.Duration { return p.clock.now() - p.before.at }
	if !p.pause(f.at - elapsed()) {
		in.leftOut(f)
		return
	}
	at := elapsed()
	heal, err := faultKinds[f.kind](in.servers[f.node], p.flags, f.length)
	if err != nil {
		in.failed(f, err)
		return
	}
	in.say("%v: %s of node %d for %v", at.Round(time.Millisecond), f.kind, f.node, f.length)
	// No fault outlasts its run: nobody would see it.
	early := !p.pause(f.length)
	if err := heal(early); err != nil {
		in.failed(f, err)
		return
	}
	end := elapsed()
	in.say("%v: %s of node %d is over", end.Round(time.Millisecond), f.kind, f.node)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.done = append(in.done, faultResult{AtS: at.Seconds(), LengthS: (end - at).Seconds(), Kind: f.kind, Node: f.node, at: at, length: end - at})
}

func (in *inflictor) leftOut(f fault) {
	in.say("--fault %v was not made: the run was over before", f)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.notMade = append(in.notMade, f.String())
}

func (in *inflictor) failed(f fault, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.errs = append(in.errs, fmt.Errorf("--fault %v: %w", f, err))
}

// settleTimeout bounds the wait for servers after a run with faults.
const settleTimeout = 10 * time.Second

// settle has the servers of a run with faults be as they were before it: all of
// them answer, and none has a key that a lost release left.
func (t *target) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for i, s := range t.servers {
		for {
			_, err := s.Do("FLUSHALL")
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("node %d is not back after its fault: %w", i, err)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}
