package load

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

// healing ends a fault; early if the run has ended before the fault's time.
type healing func(early bool) error

// faultKinds are the kinds of faults: each function starts a fault and returns
// what ends it.
var faultKinds = map[string]func(*redistest.Server, *flags, time.Duration) (healing, error){
	"stop":   stopServer,
	"kill":   killServer,
	"pause":  pauseServer,
	"refuse": refuseClients,
}

func faultKindNames() []string { return slices.Sorted(maps.Keys(faultKinds)) }

// stopServer stops the process. Its kernel still accepts connections and bytes,
// which the process handles when it continues.
func stopServer(s *redistest.Server, _ *flags, _ time.Duration) (healing, error) {
	return func(bool) error { return s.Continue() }, s.Stop()
}

// killServer kills the process; an empty one replaces it.
func killServer(s *redistest.Server, f *flags, _ time.Duration) (healing, error) {
	return func(bool) error { return restart(s, f) }, s.Kill()
}

func restart(s *redistest.Server, f *flags) error {
	if err := s.Restart(); err != nil {
		return err
	}
	return requirePassword(s, f)
}

// pauseServer makes the server hold back all commands and replies, as a busy
// server does. A paused server accepts no command to continue early, so it is
// replaced then.
func pauseServer(s *redistest.Server, f *flags, d time.Duration) (healing, error) {
	_, err := s.Do("CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10), "ALL")
	return func(early bool) error {
		if early {
			return restart(s, f)
		}
		return nil
	}, err
}

// refuseClients cuts all connections and removes the socket's name, so that no
// new one can be made. The process and its keys stay.
func refuseClients(s *redistest.Server, f *flags, _ time.Duration) (healing, error) {
	e, err := conn.ParseURL(s.UnixURL())
	if err != nil {
		return nil, err
	}
	// This connection is made before the name is removed, and survives.
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

// faultResult is a fault that was made, with its measured times.
type faultResult struct {
	AtS     float64 `json:"at_s"`
	LengthS float64 `json:"length_s"`
	Kind    string  `json:"kind"`
	Node    int     `json:"node"`

	at, length time.Duration
}

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

// startInflictor makes each fault at its time, each in its own goroutine: a
// long one, such as a restart, must not delay another.
func startInflictor(p *phase, servers []*redistest.Server, say func(string, ...any)) *inflictor {
	in := &inflictor{phase: p, servers: servers, say: say}
	for _, f := range p.flags.Fault {
		in.working.Go(func() { in.make(f) })
	}
	return in
}

// stop waits until all faults have ended. Then done contains those that were
// made, by time. Faults that were still to come when the phase ended are listed
// separately: a run with -n may end early, and must not look as if it had
// survived them. Faults in progress at the end are healed early.
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
	// A fault ends with its run at the latest.
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

// settle restores the servers after a run with faults: all answer, and none has
// a key left by a lost release.
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
