package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// A fleet is the real servers of one test, and what there is to be asked of them from the side.
type fleet struct {
	testing.TB
	servers []*redistest.Server
}

// newFleet starts servers for a test, which fails when it leaves a goroutine or a descriptor behind (R28). Tests with
// servers do not run in parallel: they measure.
func newFleet(tb testing.TB, n int, options ...redistest.Option) *fleet {
	tb.Helper()
	redistest.NoLeaks(tb)
	return &fleet{tb, redistest.Servers(tb, n, options...)}
}

// client makes a client of these servers, or of the nodes that the configuration names, and closes it with the test.
func (f *fleet) client(config redlock.Config) *redlock.Client {
	f.Helper()
	if config.Nodes == nil {
		config.Nodes = redlock.Nodes(redistest.URLs(f.servers)...)
	}
	if config.TLS == nil {
		config.TLS = f.servers[0].TLSConfig()
	}
	c, err := redlock.New(context.Background(), config)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// allUp waits until every node of the client is up and owes nothing.
func (f *fleet) allUp(c *redlock.Client, within time.Duration) time.Duration {
	f.Helper()
	return eventually(f, within, func() error {
		for i, n := range c.Nodes() {
			if n.State != "up" || n.Debts > 0 {
				return fmt.Errorf("node %d is %s with %d debts: %v", i, n.State, n.Debts, n.Err)
			}
		}
		return nil
	})
}

// must runs a command on a server.
func (f *fleet) must(server int, args ...string) any {
	f.Helper()
	v, err := f.servers[server].Do(args...)
	if err != nil {
		f.Fatalf("server %d: %s: %v", server, args[0], err)
	}
	return v
}

// keys lists what a server holds, but for the keys given.
func (f *fleet) keys(server int, except map[string]bool) []string {
	f.Helper()
	var all []string
	for _, k := range f.must(server, "KEYS", "*").([]any) {
		if !except[k.(string)] {
			all = append(all, k.(string))
		}
	}
	return all
}

// orphans says what keys without a holder the servers have; nil for none.
func (f *fleet) orphans(held map[string]bool) error {
	f.Helper()
	found := make(map[string]int)
	for i := range f.servers {
		for _, k := range f.keys(i, held) {
			found[k]++
		}
	}
	if len(found) == 0 {
		return nil
	}
	some := slices.Collect(maps.Keys(found))
	return fmt.Errorf("%d keys without a holder, among them %q", len(found), some[:min(3, len(some))])
}

// noOrphans waits until the servers hold no key at all. TTLs are long in these tests, so that nothing expires meanwhile.
func (f *fleet) noOrphans(within time.Duration) time.Duration {
	f.Helper()
	return eventually(f, within, func() error { return f.orphans(nil) })
}

// on counts on how many servers a key has the given value.
func (f *fleet) on(key, value string) int {
	f.Helper()
	count := 0
	for _, s := range f.servers {
		if v, err := s.Do("GET", key); err == nil && v == value {
			count++
		}
	}
	return count
}

// each runs a function for each of the servers named, at once.
func (f *fleet) each(which []int, do func(s *redistest.Server) error) {
	f.Helper()
	errs := make([]error, len(which))
	var wg sync.WaitGroup
	for i, w := range which {
		wg.Go(func() { errs[i] = do(f.servers[w]) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		f.Fatal(err)
	}
}

// stop stops servers with SIGSTOP, and continues ends that.
func (f *fleet) stop(which ...int)      { f.each(which, (*redistest.Server).Stop) }
func (f *fleet) continues(which ...int) { f.each(which, (*redistest.Server).Continue) }

const (
	// unhurried is a vote timeout for tests that are about something else: a machine that stands still for a moment costs no
	// vote and no connection. A node that hangs is noticed after four times that, so they stop none that has to be found out.
	unhurried = 5 * time.Second
	// inTheEnd is how long is waited for what must come, where when it comes is not the question. Keys whose end is waited for
	// so long have a TTL of at least twice that, or they would be gone for another reason.
	inTheEnd = 15 * time.Second
	// unprompted is how long is waited for what a client that is idle must have sent by itself: less than the five seconds after
	// which a connection is probed, since the probe takes along whatever was forgotten (R26), and after which a seal is looked at.
	unprompted = 4 * time.Second
)

// eventually waits until a condition holds, and returns how long it took.
func eventually(tb testing.TB, within time.Duration, holds func() error) time.Duration {
	tb.Helper()
	took, err := soon(within, holds)
	if err != nil {
		tb.Fatal(err)
	}
	return took
}

// soon is the same as a measurement.
func soon(within time.Duration, holds func() error) (took time.Duration, late error) {
	start := time.Now()
	for {
		err := holds()
		took = time.Since(start)
		switch {
		case err == nil:
			return took, nil
		case took > within:
			return took, fmt.Errorf("not within %v: %w", within, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// bestOf measures up to five times and is content with the first that holds: other programs share the machine, and can
// only make it slower, as a rule for a while. What does not hold five times, with some time in between, is not noise. Each
// time the whole is measured anew: to look once more at what a measurement has left would only be to wait for it longer.
func bestOf(tb testing.TB, measure func() error) {
	tb.Helper()
	var err error
	for try := range 5 {
		time.Sleep(time.Duration(try) * 200 * time.Millisecond)
		if err = measure(); err == nil {
			return
		}
		if tb.Failed() {
			break // what is wrong on any machine was told already
		}
		tb.Logf("again: %v", err)
	}
	tb.Error(err)
}

// acquired is a TryAcquire that must succeed, but for votes that come late on a busy machine.
func acquired(tb testing.TB, c *redlock.Client, resource string, ttl time.Duration) redlock.Lock {
	tb.Helper()
	l, err := c.TryAcquire(context.Background(), resource, ttl)
	for range 5 {
		if errors.Is(err, multiplex.ErrTimeout) {
			l, err = c.TryAcquire(context.Background(), resource, ttl)
		}
	}
	if err != nil {
		tb.Fatalf("TryAcquire(%q): %v", resource, err)
	}
	return l
}

// is is the question whether an error is another.
func is(cause error) func(error) bool { return func(err error) bool { return errors.Is(err, cause) } }

// undecided checks that an error is ErrNoQuorum and names exactly these nodes, each for a reason that holds (R12).
func undecided(err error, reason func(error) bool, nodes ...int) error {
	var all *multiplex.UndecidedError
	switch {
	case err == nil:
		return errors.New("there was a quorum")
	case !errors.Is(err, redlock.ErrNoQuorum):
		return fmt.Errorf("not ErrNoQuorum: %w", err)
	case !errors.As(err, &all):
		return fmt.Errorf("no UndecidedError: %w", err)
	}
	var named []int
	for _, n := range all.Nodes {
		named = append(named, n.Node)
		if !reason(n) {
			return fmt.Errorf("node %d failed for another reason: %w", n.Node, n.Err)
		}
		if n.Addr == "" || !strings.Contains(err.Error(), n.Addr) {
			return fmt.Errorf("the error does not name the address of node %d: %w", n.Node, err)
		}
	}
	if !slices.Equal(named, nodes) {
		return fmt.Errorf("names the nodes %v, not %v: %w", named, nodes, err)
	}
	return nil
}

// state waits until a node is in one of the states.
func (f *fleet) state(c *redlock.Client, node int, within time.Duration, states ...redlock.NodeState) time.Duration {
	f.Helper()
	return eventually(f, within, func() error {
		if n := c.Nodes()[node]; !slices.Contains(states, n.State) {
			return fmt.Errorf("node %d is %s, not %v: %v", node, n.State, states, n.Err)
		}
		return nil
	})
}
