package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
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

// Names and results stay separate in a merged release: hostile names side by
// side (R19), our locks beside lost ones, and each lock released twice at once
// (R9).
func TestFaultMergedResults_R9_R19(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{NodeTimeout: unhurried, Prefix: "p\r\n"})
	f.allUp(c, inTheEnd)
	names := []string{"\r\n", "a\r\nFLUSHALL\r\n", "$5\r\n", "*1\r\n$8\r\nFLUSHALL\r\n", "\x00", "\xff\xfe", "$-1\r\n",
		strings.Repeat("k", 1024), strings.Repeat("\r\n", 511), "{a}b"}
	name := func(i int) string { return names[i%len(names)] + fmt.Sprint(i/len(names)) }
	name = func(inner func(int) string) func(int) string {
		return func(i int) string { s := inner(i); return s[max(0, len(s)-1024):] }
	}(name)
	for range 5 {
		locks := acquireAll(f, c, name, 60)
		for i := range 5 {
			for k := 0; k < len(locks); k += 3 {
				f.must(i, "SET", "p\r\n"+name(k), "stranger")
			}
		}
		granted := make(map[int]int)
		for i, err := range releaseAll(context.Background(), append(locks, locks...)) {
			switch k := i % len(locks); {
			case err == nil:
				granted[k]++
			case !errors.Is(err, redlock.ErrNotHeld) && !errors.Is(err, multiplex.ErrTimeout):
				t.Errorf("lock %d: %v", k, err)
			}
		}
		for k := range locks {
			if want := min(k%3, 1); granted[k] != want {
				t.Errorf("lock %d: %d of two releases say that it was held, not %d", k, granted[k], want)
			}
		}
		for i := range 5 {
			eventually(t, unprompted, func() error { // the slowest node's answer is not waited for
				if keys := f.keys(i, nil); len(keys) != 20 {
					return fmt.Errorf("server %d has %d keys of strangers, not 20", i, len(keys))
				}
				return nil
			})
			f.must(i, "FLUSHALL")
		}
	}
	if n := c.Nodes()[0].Connects; n != 1 {
		t.Errorf("%d connects", n)
	}
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

// R25 under load: an older server takes over the address of one of five. The
// group has left the native form before that server gets a command, so it never
// gets an unknown one. Then a newer one comes back, and with it the form.
// Neither change leaves anything behind.
func TestFaultFormIsLeftForAnOlderServer_R25(t *testing.T) {
	with, without := programs(t)
	if len(with) == 0 || len(without) == 0 {
		t.Skipf("%d servers with a native release, %d without: REDMUX_SERVERS must name one of each", len(with), len(without))
	}
	for _, newer := range with {
		for _, older := range without {
			t.Run(newer.native[0]+" and "+filepath.Base(filepath.Dir(older.path)), func(t *testing.T) {
				takeOver(t, newer, older)
			})
		}
	}
}

func takeOver(t *testing.T, newer, older program) {
	f, become := replaceable(t, 5, newer)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, 2*inTheEnd)
	is := func(form string) func() error {
		return func() error {
			if got := c.Stats().ReleaseForm; got != form {
				return fmt.Errorf("released by %s, not by %s", got, form)
			}
			return nil
		}
	}
	if err := is(newer.native[0])(); err != nil {
		t.Fatal(err)
	}
	l := f.load(c, workload{callers: 32})
	l.until(300, 2*inTheEnd)

	become(older)
	before := c.Nodes()[0].Connects
	if err := f.servers[0].Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*inTheEnd, is("script"))
	l.until(300, 2*inTheEnd)
	ours := c.Nodes()[0].Connects - before
	errs := f.commandErrors(0)
	// A new client's handshake is all that it sends, if it comes by the socket's
	// file: by an address, it would dial once more, to look behind it (R22).
	stranger := f.client(redlock.Config{Nodes: redlock.Nodes(f.servers[0].UnixURL())})
	f.allUp(stranger, 2*inTheEnd)
	each := f.commandErrors(0) - errs
	if ours != 1 || errs != each {
		t.Errorf("%d errors to %d connections, of which a handshake explains %d each", errs, ours, each)
	}

	become(newer)
	if err := f.servers[0].Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*inTheEnd, is(newer.native[0]))
	f.allUp(c, 2*inTheEnd)
	l.until(300, 2*inTheEnd)
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	f.noOrphans(unprompted)
	if err := is(newer.native[0])(); err != nil {
		t.Error(err)
	}
}

// program is a server executable and the native release commands that it has.
type program struct {
	path   string
	native []string
}

// programs returns the servers that the environment names, in the list
// REDMUX_SERVERS or one by one. Each is asked for its commands, not for its
// version (R25).
func programs(t *testing.T) (with, without []program) {
	t.Helper()
	redistest.Require(t)
	paths := filepath.SplitList(os.Getenv("REDMUX_SERVERS"))
	if path, ok := redistest.Find(); ok {
		paths = append(paths, path)
	}
	t.Setenv("REDMUX_SERVER", "")
	if path, ok := redistest.Find(); ok {
		paths = append(paths, path)
	}
	seen := make(map[string]bool)
	for _, path := range paths {
		if path == "" || seen[path] { // a list may have empty elements
			continue
		}
		seen[path] = true
		s, err := redistest.Start(redistest.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		p := program{path, nativeCommands(s)}
		_ = s.Close()
		if len(p.native) > 0 {
			with = append(with, p)
		} else {
			without = append(without, p)
		}
	}
	return with, without
}

// nativeCommands returns the native release commands of a server, by its
// answers.
func nativeCommands(s *redistest.Server) (all []string) {
	for _, command := range [][]string{{"DELEX", "none", "IFEQ", "a"}, {"DELIFEQ", "none", "a"}} {
		if v, err := s.Do(command...); err == nil && v == int64(0) {
			all = append(all, command[0])
		}
	}
	return all
}

// replaceable starts servers of a program. The next start of the first one runs
// the program that become names.
func replaceable(t *testing.T, n int, p program) (f *fleet, become func(program)) {
	t.Helper()
	redistest.NoLeaks(t)
	file, err := os.CreateTemp("", "rt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file.Name()) })
	_ = file.Close()
	become = func(p program) {
		script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", p.path)
		if err := os.WriteFile(file.Name(), []byte(script), 0o700); err != nil { //nolint:gosec // it must be executable
			t.Fatal(err)
		}
		if err := os.Chmod(file.Name(), 0o700); err != nil { //nolint:gosec // likewise
			t.Fatal(err)
		}
	}
	become(p)
	f = &fleet{TB: t}
	for i := range n {
		path := p.path
		if i == 0 {
			path = file.Name()
		}
		s, err := redistest.Start(redistest.Options{Path: path, TCP: true, Unix: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		f.servers = append(f.servers, s)
	}
	return f, become
}

// commandErrors returns how many commands a server has answered with an
// unclassified error since its start.
func (f *fleet) commandErrors(server int) int {
	f.Helper()
	stats := f.must(server, "INFO", "errorstats").(string)
	found := regexp.MustCompile(`errorstat_ERR:count=(\d+)`).FindStringSubmatch(stats)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1])
	return n
}
