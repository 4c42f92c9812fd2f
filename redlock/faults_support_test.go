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

// A fleet is the real servers of one test, with ways to inspect them from
// outside.
type fleet struct {
	testing.TB
	servers []*redistest.Server
}

// newFleet starts servers for a test, which fails if it leaves a goroutine or a
// descriptor behind (R28). Tests with servers do not run in parallel, because
// they measure.
func newFleet(tb testing.TB, n int, options ...redistest.Option) *fleet {
	tb.Helper()
	redistest.NoLeaks(tb)
	return &fleet{tb, redistest.Servers(tb, n, options...)}
}

// client creates a client of these servers, or of the nodes in the
// configuration, and closes it with the test. Without MaxTTL it is forgetful:
// most tests are not about quarantine.
func (f *fleet) client(config redlock.Config) *redlock.Client {
	f.Helper()
	config.Forgetful = config.MaxTTL == 0
	c, err := redlock.New(context.Background(), f.reach(config))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// reach returns a configuration with the way to these servers.
func (f *fleet) reach(config redlock.Config) redlock.Config {
	if config.Nodes == nil {
		config.Nodes = redlock.Nodes(redistest.URLs(f.servers)...)
	}
	if config.TLS == nil {
		config.TLS = f.servers[0].TLSConfig()
	}
	return config
}

// looked waits until a client that has connected by these proxies has also
// looked behind each of them (R22): the connection of that look would take a
// fault that strikes once.
func (f *fleet) looked(proxies ...*redistest.Proxy) {
	f.Helper()
	eventually(f, inTheEnd, func() error {
		for i, p := range proxies {
			if dials, open := p.Dials(), p.Conns(); dials < 2 || open != 1 {
				return fmt.Errorf("proxy %d was dialed %d times and has %d connections", i, dials, open)
			}
		}
		return nil
	})
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

// keys lists the keys of a server, except the given ones.
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

// orphans returns an error that lists the servers' keys without a holder, or
// nil.
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

// noOrphans waits until the servers have no keys at all. TTLs are long in these
// tests, so nothing expires meanwhile.
func (f *fleet) noOrphans(within time.Duration) time.Duration {
	f.Helper()
	return eventually(f, within, func() error { return f.orphans(nil) })
}

// on counts the servers on which a key has the given value.
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

// each runs a function for each of the given servers, all at once.
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
	// unhurried is a vote timeout for tests about something else: a machine
	// that stalls for a moment costs no vote and no connection. A node that
	// hangs is noticed after four times that, so these tests stop no node that
	// must be noticed.
	unhurried = 5 * time.Second
	// inTheEnd is the patience for events whose time is not tested. Keys whose
	// deletion is awaited for that long have at least twice that TTL, or they
	// would expire.
	inTheEnd = 15 * time.Second
	// unprompted is the patience for what an idle client must send by itself.
	// It is less than five seconds, after which a connection is probed, and the
	// probe would carry along whatever was forgotten (R26), and after which a
	// seal is read.
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

// soon is eventually as a measurement.
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

// bestOf measures until one measurement holds, five times and for a quarter of
// a minute at least: other programs share the machine, and can only slow it
// down, usually for a while. What fails for so long is not noise. Each time the
// whole is measured again: another look at the same measurement would only
// extend its time.
func bestOf(tb testing.TB, measure func() error) {
	tb.Helper()
	var err error
	begun := time.Now()
	for try := 0; try < 5 || time.Since(begun) < 15*time.Second; try++ {
		time.Sleep(time.Duration(min(try, 5)) * 200 * time.Millisecond)
		if err = measure(); err == nil {
			return
		}
		if tb.Failed() {
			break // what is wrong on any machine has been reported
		}
		tb.Logf("again: %v", err)
	}
	tb.Error(err)
}

// acquired is a TryAcquire that must succeed, except for votes that are late on
// a busy machine.
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

// is returns a function that reports whether an error is cause.
func is(cause error) func(error) bool { return func(err error) bool { return errors.Is(err, cause) } }

// undecided checks that an error is ErrNoQuorum and names exactly these nodes,
// each with a matching reason (R12).
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
func (f *fleet) state(c *redlock.Client, node int, within time.Duration, states ...string) time.Duration {
	f.Helper()
	return eventually(f, within, func() error {
		if n := c.Nodes()[node]; !slices.Contains(states, n.State) {
			return fmt.Errorf("node %d is %s, not %v: %v", node, n.State, states, n.Err)
		}
		return nil
	})
}
