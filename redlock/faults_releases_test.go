package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/stretchr/testify/require"
)

// A trouble keeps one node from a release for some time.
type trouble struct {
	name    string
	on, off func(d *debtors, node int)
}

// A debtors is five nodes, each behind a proxy and with a trouble of its own.
type debtors struct {
	*ward
	proxies []*redistest.Proxy
	client  *redlock.Client
}

// owed is how many releases each node comes to owe: so many that they travel
// merged, and that one payment is not enough.
const owed = 300

// Releases that a node refuses, or that are cut off with their connection, are
// paid within 1.5 s of the node's return (R26). Many releases that were awaited
// at once, and so travelled in a few commands, are owed singly: each key is a
// debt, counted and shown, none is lost and none is paid before (R8). The
// troubles last until a refused debt is retried only once a second, which is
// the worst moment to return.
func TestFaultDebtsArePaid_R8_R26(t *testing.T) {
	switches := func(on, off switcher) (begin, end func(*debtors, int)) {
		return func(d *debtors, i int) { on(d.ward, i) }, func(d *debtors, i int) { off(d.ward, i) }
	}
	refused := func(name string, on, off switcher) trouble {
		begin, end := switches(on, off)
		return trouble{name, begin, end}
	}
	for name, troubles := range map[string][]trouble{
		"refused": {
			refused("NOREPLICAS", set("min-replicas-to-write", "1"), set("min-replicas-to-write", "0")),
			refused("MISCONF", failSaving, saveAgain),
			refused("BUSY", runForever, then(do("SCRIPT", "KILL"), ended)),
			refused("LOADING", reload, loaded),
			refused("NOPERM", then(scriptsOnly, user("-evalsha")), user("+@all")),
		},
		"cut off": {
			{"refused connections", func(d *debtors, i int) { d.proxies[i].Refuse(true); d.proxies[i].Reset() },
				func(d *debtors, i int) { d.proxies[i].Refuse(false) }},
			{"lost answers, then a reset", func(d *debtors, i int) { d.proxies[i].Pause(redistest.Down) },
				func(d *debtors, i int) { d.proxies[i].Resume(redistest.Down); d.proxies[i].Reset() }},
			{"half-open connection, refused afterwards", func(d *debtors, i int) { d.proxies[i].HalfOpen(); d.proxies[i].Refuse(true) },
				func(d *debtors, i int) { d.proxies[i].Refuse(false) }},
			{"SIGSTOP", func(d *debtors, i int) { d.stop(i) }, func(d *debtors, i int) { d.continues(i) }},
			{"SIGSTOP, and the link restarts", func(d *debtors, i int) { d.stop(i); d.proxies[i].Reset() },
				func(d *debtors, i int) { d.continues(i); d.proxies[i].Reset() }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 5, redistest.OverTCP, redistest.OverUnix,
				redistest.Args("--user", "redlock", "on", ">"+ourSecret, "~*", "&*", "+@all"))
			d := &debtors{ward: newWard(f), proxies: redistest.Proxies(t, f.servers)}
			config := credentials(false)
			config.Nodes = redlock.Nodes(redistest.URLs(d.proxies)...)
			d.client = f.client(config)
			bestOf(t, func() error { return d.runUp(troubles) })
		})
	}
}

// runUp creates the debts and has them paid.
func (d *debtors) runUp(troubles []trouble) error {
	d.allUp(d.client, inTheEnd)
	locks := acquireAll(d.fleet, d.client, func(i int) string { return fmt.Sprint("owed:", i) }, owed)
	if err := d.holdAll(); err != nil {
		releaseAll(context.Background(), locks)
		d.noOrphans(inTheEnd)
		return err
	}
	for i, trouble := range troubles {
		trouble.on(d, i)
	}
	begun := time.Now()
	_ = releaseAll(context.Background(), locks) // no outcome is certain
	for i, trouble := range troubles {
		eventually(d, inTheEnd, func() error { return d.owes(i, trouble) })
	}
	time.Sleep(time.Until(begun.Add(1700 * time.Millisecond))) // tried after 50, 150, 350, 750 and 1,550 ms, then after 2,550
	for i, trouble := range troubles {
		if err := d.owes(i, trouble); err != nil {
			d.Errorf("R8: before it was over: %v", err)
		}
	}
	over := make([]time.Time, len(troubles))
	for i, trouble := range troubles {
		trouble.off(d, i)
		over[i] = time.Now()
	}
	return d.pay(troubles, over)
}

// holdAll waits until every node has the locks, since only then does each
// release delete a key on each node. A node that was given up meanwhile, on a
// busy machine, does not get the keys that it missed.
func (d *debtors) holdAll() (missing error) {
	d.Helper()
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		missing = nil
		for i := range d.servers {
			if n := len(d.keys(i, nil)); n != owed {
				missing = fmt.Errorf("server %d has %d keys", i, n)
			}
		}
		if missing == nil {
			return nil
		}
	}
	return missing
}

// owes checks that each key is one debt of a node.
func (d *debtors) owes(node int, trouble trouble) error {
	if n := d.client.Nodes()[node]; n.Debts != owed {
		return fmt.Errorf("%s: node %d owes %d releases, not %d: %v", trouble.name, node, n.Debts, owed, n.Err)
	}
	return nil
}

// pay measures when each node has paid, counted from the end of its own
// trouble.
func (d *debtors) pay(troubles []trouble, over []time.Time) (late error) {
	d.Helper()
	paid := make([]time.Duration, len(troubles))
	eventually(d, inTheEnd, func() error {
		nodes := d.client.Nodes()
		var missing error
		for i := range troubles {
			switch {
			case nodes[i].Debts > 0:
				missing = fmt.Errorf("%s: node %d owes %d releases: %v", troubles[i].name, i, nodes[i].Debts, nodes[i].Err)
			case paid[i] == 0:
				paid[i] = time.Since(over[i])
			}
		}
		return missing
	})
	if err := d.orphans(nil); err != nil {
		d.Errorf("R8: all is paid, and there are %v", err)
	}
	for i, trouble := range troubles {
		d.Logf("%s: %d debts paid %v after it was over", trouble.name, owed, paid[i])
		if paid[i] > timingSlack*1500*time.Millisecond {
			late = fmt.Errorf("R26: %s: paid only after %v", trouble.name, paid[i])
		}
	}
	return late
}

// The detached release of a failed attempt finds its script gone, and there is
// no other call: it is cured on the same connection (R24).
func TestFaultScriptFlushAndNoOtherCall_R24(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	for i := range 3 {
		f.must(i, "SET", "taken", "by another")
	}
	for range 10 {
		for i := range f.servers {
			f.must(i, "SCRIPT", "FLUSH")
		}
		if _, err := c.TryAcquire(context.Background(), "taken", time.Minute); !errors.Is(err, redlock.ErrHeld) {
			t.Fatalf("not ErrHeld: %v", err)
		}
		for i := 3; i < 5; i++ {
			eventually(t, unprompted, func() error {
				if f.must(i, "EXISTS", "taken") != int64(0) {
					return fmt.Errorf("server %d still has the key", i)
				}
				return nil
			})
		}
	}
	for i, n := range c.Nodes() {
		if n.Connects != 1 {
			t.Errorf("node %d was connected %d times: %v", i, n.Connects, n.Err)
		}
	}
}

// At maxmemory, locks on several resources, fair ones and those of readers and
// writers do as plain ones do: new ones are refused, and those that are held
// are renewed and released (R25). A downgrade succeeds as well. Readers and
// waiters whose time is over must change nothing: if a script removed them
// first, the server would refuse none of its later writes.
func TestLocksAtMaxmemory_R25(t *testing.T) {
	f := newFleet(t, 1)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	ctx, second := context.Background(), redlock.HoldOptions{TTL: time.Second}
	rw := c.RW("r")
	holds := make(map[string]*redlock.Hold)
	add := func(kind string) func(*redlock.Hold, error) {
		return func(h *redlock.Hold, err error) {
			require.NoError(t, err, kind)
			holds[kind] = h
		}
	}
	add("plain")(c.Hold(ctx, "plain", second))
	add("several")(c.All("one", "two").Hold(ctx, second))
	add("fair")(c.Fair("fair").Hold(ctx, second))
	add("read")(rw.Read().Hold(ctx, second))
	add("write")(c.RW("w").Write().Hold(ctx, second))
	write, err := c.RW("turned").Write().TryAcquire(ctx, time.Minute)
	require.NoError(t, err)
	for _, name := range []string{"r", "turned", "lapsed"} {
		f.must(0, "ZADD", name+":redlock:readers", "1", "lapsed")
	}
	f.must(0, "ZADD", "lapsed:redlock:queue", "1", "lapsed")

	f.must(0, "CONFIG", "SET", "maxmemory", "1")
	time.Sleep(3 * time.Second)
	for kind, h := range holds {
		require.NoError(t, h.Err(), kind)
	}
	read, err := c.RW("turned").Downgrade(ctx, write, time.Minute)
	require.NoError(t, err)
	refused := func(what string, classes ...conn.Class) func(redlock.Lock, error) {
		return func(_ redlock.Lock, err error) {
			t.Helper()
			require.NoError(t, undecided(err, classIs(classes...), 0), what)
		}
	}
	refused("plain", conn.ClassOOM)(c.TryAcquire(ctx, "new", time.Second))
	// Before version 7, an error of a script has no class.
	for _, name := range []string{"new", "lapsed"} {
		script := refused(name, conn.ClassOOM, conn.ClassOther)
		script(c.All(name, name+" 2").TryAcquire(ctx, time.Second))
		script(c.Fair(name).TryAcquire(ctx, time.Second))
		script(c.RW(name).Read().TryAcquire(ctx, time.Second))
		script(c.RW(name).Write().TryAcquire(ctx, time.Second))
	}
	script := refused("beside a reader", conn.ClassOOM, conn.ClassOther)
	script(rw.Read().TryAcquire(ctx, time.Second))
	script(c.RW("turned").Upgrade(ctx, read, time.Second))
	_, err = rw.Write().TryAcquire(ctx, time.Second)
	require.ErrorIs(t, err, redlock.ErrHeld)

	require.NoError(t, read.Release(ctx))
	for kind, h := range holds {
		require.NoError(t, h.Release(ctx), kind)
	}
	f.must(0, "DEL", "lapsed:redlock:readers", "lapsed:redlock:queue", "fair:redlock:ticket") // of no TTL, and a long one
	f.noOrphans(unprompted)
}
