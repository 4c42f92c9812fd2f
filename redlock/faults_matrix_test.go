package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// A condition is a state of a server in which it does not obey.
type condition struct {
	name, about string
	on, off     switcher
	why         func(error) bool // matches the cause of each node in this state, wherever it is shown
	down        bool             // the connection cannot stay
	owes        bool             // releases are refused or cannot be sent
	silent      bool             // the node answers nothing
	unseen      bool             // the state shows in the next answer only
	anonymous   bool             // the client has no credentials
	anew        bool             // the server is restarted
	credentials bool             // the node refuses our credentials, so it is dialed again only after a second (R26)
}

// The table of what servers refuse in which state, as a test: one line per
// state. TestErrorMatrix checks the result of each.
var conditions = []condition{
	{name: "oom", about: "maxmemory is reached", why: classIs(conn.ClassOOM),
		on: set("maxmemory", "1"), off: set("maxmemory", "0")},
	{name: "noreplicas", about: "fewer replicas than min-replicas-to-write", why: classIs(conn.ClassNoReplicas), owes: true,
		on: set("min-replicas-to-write", "1"), off: set("min-replicas-to-write", "0")},
	{name: "readonly", about: "the master becomes a replica, which ends our connection at the next answer", why: saysReplica, owes: true,
		down: true, unseen: true, on: do("REPLICAOF", "127.0.0.1", "1"), off: do("REPLICAOF", "NO", "ONE")},
	{name: "replica", about: "the master becomes a replica, and we come back to it", why: saysReplica, owes: true,
		down: true, on: then(do("REPLICAOF", "127.0.0.1", "1"), kicked), off: do("REPLICAOF", "NO", "ONE")},
	{name: "masterdown", about: "a replica without its master, that may not serve stale data",
		why: saysReplica, owes: true, down: true, unseen: true,
		on:  then(scriptsOnly, set("replica-serve-stale-data", "no"), do("REPLICAOF", "127.0.0.1", "1")),
		off: then(do("REPLICAOF", "NO", "ONE"), set("replica-serve-stale-data", "yes"), user("+@all"))},
	{name: "misconf", about: "the last BGSAVE failed", why: classIs(conn.ClassMisconf), owes: true, on: failSaving, off: saveAgain},
	{name: "busy", about: "a script runs too long", why: classIs(conn.ClassBusy), owes: true,
		on: runForever, off: then(do("SCRIPT", "KILL"), ended)},
	{name: "loading", about: "the data set is being read", why: classIs(conn.ClassLoading), owes: true, on: reload, off: loaded},
	{name: "cluster", about: "cluster mode, without slots", why: is(multiplex.ErrNotMaster), owes: true, down: true, anew: true,
		on: restart("--cluster-enabled", "yes"), off: restart()},
	{name: "renamed", about: "SET does not exist, and the server quotes key and token in saying so",
		why: classIs(conn.ClassUnknownCommand), anew: true, on: restart("--rename-command", "SET", ""), off: restart()},
	{name: "noauth", about: "a password is required, and we have none", why: classIs(conn.ClassNoAuth), owes: true, down: true,
		anonymous: true, credentials: true, on: protect, off: unprotect},
	{name: "wrongpass", about: "our user's password was changed", why: classIs(conn.ClassWrongPass), owes: true, down: true,
		credentials: true, on: then(user("resetpass", ">"+otherSecret), kicked), off: user("resetpass", ">"+ourSecret)},
	{name: "noperm-set", about: "our user may not SET any more", why: classIs(conn.ClassNoPerm), on: user("-set"), off: user("+@all")},
	{name: "noperm-scripts", about: "our user may not run scripts any more", why: classIs(conn.ClassNoPerm), owes: true,
		on: then(scriptsOnly, user("-evalsha")), off: user("+@all")},
	{name: "noperm-keys", about: "our user may not touch our keys any more", why: classIs(conn.ClassNoPerm), owes: true,
		on: user("resetkeys", "~other:*"), off: user("resetkeys", "~*")},
	{name: "noperm-anew", about: "our user may SET but not run scripts, and we come back", why: classIs(conn.ClassNoPerm), owes: true,
		down: true, credentials: true, on: then(user("-evalsha"), kicked), off: user("+@all")},
	{name: "maxclients", about: "the server has too many clients", why: classIs(conn.ClassMaxClients), owes: true, down: true,
		on: fill, off: empty},
	{name: "scriptflush", about: "the scripts are gone", on: do("SCRIPT", "FLUSH"), off: rest},
	{name: "wrongtype", about: "the keys are lists", on: retype, off: remove},
	{name: "pause-write", about: "CLIENT PAUSE WRITE", why: is(multiplex.ErrSilent), owes: true, down: true, silent: true,
		on: do("CLIENT", "PAUSE", "60000", "WRITE"), off: do("CLIENT", "UNPAUSE")},
	{name: "pause-all", about: "CLIENT PAUSE ALL", why: is(multiplex.ErrSilent), owes: true, down: true, silent: true,
		on: do("CLIENT", "PAUSE", "5000", "ALL"), off: ended},
	{name: "sleep", about: "DEBUG SLEEP", why: is(multiplex.ErrSilent), owes: true, down: true, silent: true,
		on: func(w *ward, node int) { w.run(node, "DEBUG", "SLEEP", "5") }, off: ended},
}

// saysReplica matches what the next handshake finds, and not the answer that
// ended the connection before it.
func saysReplica(err error) bool {
	return errors.Is(err, multiplex.ErrNotMaster) && strings.Contains(err.Error(), "says that its role is replica")
}

func classIs(classes ...conn.Class) func(error) bool {
	return func(err error) bool { return slices.Contains(classes, class(err)) }
}

// Each state, entered while a client is busy. On one of five nodes only the
// counters show it; on three of five each caller gets the cause, node by node
// and with the texts of testdata/errors. Meanwhile the nodes are rarely dialed;
// afterwards everything recovers by itself (R5, R8, R12, R22, R24, R26, R27).
func TestErrorMatrix_R12_R24_R26_R27(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP, redistest.OverUnix,
		redistest.Args("--user", "redlock", "on", ">"+ourSecret, "~*", "&*", "+@all"))
	for _, c := range conditions {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() { // the next state needs clean servers
					f.each([]int{0, 1, 2, 3, 4}, (*redistest.Server).Restart)
				}
			})
			newMatrix(&fleet{t, f.servers}, c).run()
		})
	}
}

type matrix struct {
	*ward
	condition
	golden *golden
	client *redlock.Client
	stock  []redlock.Lock // held, for later extensions and releases
	tokens []string
}

func newMatrix(f *fleet, c condition) *matrix {
	f.Helper()
	m := &matrix{ward: newWard(f), condition: c, golden: newGolden(f, c.name, c.about)}
	config := credentials(c.anonymous)
	config.Prefix = keyMark
	config.NodeTimeout = unhurried
	if c.silent {
		config.NodeTimeout = 100 * time.Millisecond // a silent node is found after four times that
	}
	m.client = f.client(config)
	f.allUp(m.client, inTheEnd)
	return m
}

const perPhase = 60 // locks that a phase may use

func (m *matrix) run() {
	m.Helper()
	m.fillStock()
	m.oneOfFive()
	m.fillStock()
	m.threeOfFive()
	for _, l := range m.stock {
		_ = l.Release(context.Background()) // as far as the state has left it to us
	}
	m.noOrphans(unprompted)
	acquired(m, m.client, "afterwards", 10*time.Second)
	for i := range m.servers {
		m.must(i, "FLUSHALL")
	}
	m.golden.tell(m.client, m.client.Nodes())
	m.golden.keepsSecret(append(m.tokens, ourSecret, otherSecret, keyMark)...)
	m.golden.check()
}

// fillStock takes locks that are released or extended in the state, and records
// their names.
func (m *matrix) fillStock() {
	m.Helper()
	for len(m.stock) < perPhase {
		name := fmt.Sprint("stock:", len(m.tokens))
		lock := acquired(m, m.client, name, time.Minute)
		token := lock.Token()
		m.stock, m.tokens = append(m.stock, lock), append(m.tokens, string(token[:]))
		m.names = append(m.names, keyMark+name)
	}
	m.names = append(m.names, keyMark+"wanted")
}

func (m *matrix) take() redlock.Lock {
	m.Helper()
	if len(m.stock) == 0 {
		m.Fatal("the stock is used up")
	}
	last := m.stock[len(m.stock)-1]
	m.stock = m.stock[:len(m.stock)-1]
	return last
}

// oneOfFive puts one node into the state under load.
func (m *matrix) oneOfFive() {
	m.Helper()
	l := m.load(m.client, workload{callers: 16})
	time.Sleep(100 * time.Millisecond)
	on := l.now()
	m.during("one of five", []int{1}, func() {
		m.operations("one of five", func(err error) error { return err })
		m.goesOn(l, l.rate([]span{{0, on}}))
		l.calm()
	})
	l.end()
	if m.silent {
		l.fails(50, redlock.ErrNoQuorum) // from late votes of healthy nodes, since the timeout is short here
	} else {
		l.fails(fewFailures, redlock.ErrNoQuorum)
	}
	for _, err := range l.first {
		m.golden.tell(err)
	}
}

// goesOn checks that the callers make progress. Other programs share the
// machine and can only slow it down, so the best of a few stretches counts.
func (m *matrix) goesOn(l *load, before float64) {
	m.Helper()
	best := 0.0
	// A hundred grants may take no longer than another program may keep the
	// processors busy.
	for tries, begun := 0, l.now(); tries < 8 || l.now()-begun < 2*time.Second; tries++ {
		from := l.now()
		if l.until(100, inTheEnd); m.Failed() {
			return // there is no progress at all
		}
		best = max(best, l.rate([]span{{from, l.now()}}))
		if best >= leastMeanwhile*before {
			break
		}
	}
	m.Logf("%.0f pairs/s before, %.0f meanwhile", before, best)
	if best < leastMeanwhile*before {
		m.Errorf("R5: the throughput collapsed from %.0f to %.0f pairs/s", before, best)
	}
}

// leastMeanwhile is the remaining share of the throughput with one of five
// nodes in some state. An endless script takes a whole processor from the
// others, and other programs may take some of the rest.
const leastMeanwhile = 0.2

// threeOfFive puts a majority into the state.
func (m *matrix) threeOfFive() {
	m.Helper()
	which := []int{0, 2, 4}
	m.during("three of five", which, func() {
		m.operations("three of five", func(err error) error {
			if err == nil || errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrNotHeld) {
				return nil
			}
			return undecided(err, m.why, which...)
		})
	})
}

// during enters the state, waits until the nodes are in it, runs then, leaves
// the state, and checks that everything is as before.
func (m *matrix) during(phase string, which []int, then func()) {
	m.Helper()
	before := m.connects(which)
	begun := time.Now()
	for _, i := range which {
		m.on(m.ward, i)
	}
	if m.anew {
		clear(before)
	}
	if m.silent && len(which) > 2 {
		m.golden.expect(phase+", at first, acquire", m.acquire, func(err error) error {
			return undecided(err, is(multiplex.ErrTimeout), which...)
		})
	}
	m.settle(phase, which)
	then()
	m.releaseMany(which)
	m.golden.tell(m.client.Nodes())

	if m.credentials {
		time.Sleep(time.Until(begun.Add(barredFor))) // they are not dialed before that
	}
	lasted := time.Since(begun)
	if m.anew {
		m.fewConnects(before, m.connects(which), lasted)
	}
	for _, i := range which {
		m.off(m.ward, i)
	}
	late := m.recovers(phase, begun)
	lasted = time.Since(begun)
	if !m.anew {
		m.fewConnects(before, m.connects(which), lasted)
	}
	if late == nil {
		return
	}
	m.Logf("again: %v", late)
	bestOf(m, func() error { // the same without the questions
		m.fillStock()
		begun := time.Now()
		for _, i := range which {
			m.on(m.ward, i)
		}
		m.inState(which)
		m.releaseMany(which)
		for _, i := range which {
			m.off(m.ward, i)
		}
		return m.recovers(phase, begun)
	})
}

// recovers waits until all is as before, and returns an error if that took too
// long.
func (m *matrix) recovers(phase string, begun time.Time) error {
	m.Helper()
	over := time.Since(begun)
	took := m.allUp(m.client, 40*time.Second)
	m.Logf("%s: the state lasted %v; recovered and paid %v after it", phase, over, took)
	bound := 1500 * time.Millisecond
	if m.credentials {
		bound += over + time.Second // the second try comes after a second, the third after two more, and so on
	}
	if took > timingSlack*bound {
		return fmt.Errorf("R26: recovered and paid only after %v", took)
	}
	return nil
}

// barredFor is a little less than the time after which refused credentials are
// tried again.
const barredFor = 900 * time.Millisecond

// settle waits until the nodes are in the state, as Nodes shows it, and records
// the texts.
func (m *matrix) settle(phase string, which []int) {
	m.Helper()
	m.inState(which)
	for _, i := range which {
		m.golden.expect(fmt.Sprintf("%s, node %d", phase, i), func() error { return m.client.Nodes()[i].Err }, func(err error) error {
			if (err != nil) != m.down || m.down && !m.why(err) {
				return fmt.Errorf("the cause that Nodes shows is %w", err)
			}
			return nil
		})
	}
}

// inState waits until the nodes are in the state.
func (m *matrix) inState(which []int) {
	m.Helper()
	if m.down {
		eventually(m, inTheEnd, func() error {
			if m.silent || m.unseen {
				_ = m.acquire()
			}
			for _, i := range which {
				if n := m.client.Nodes()[i]; n.State == "up" || n.Err == nil || !m.why(n.Err) {
					return fmt.Errorf("node %d is %s: %v", i, n.State, n.Err)
				}
			}
			return nil
		})
	} else if m.anew {
		m.allUp(m.client, inTheEnd)
	}
}

// operations tries each of the three operations and records the outcome. The
// locks were granted before.
func (m *matrix) operations(phase string, sound func(error) error) {
	m.Helper()
	m.golden.expect(phase+", acquire", m.acquire, sound)
	m.golden.expect(phase+", extend", func() error {
		_, err := m.stock[0].Extend(context.Background(), 90*time.Second)
		return err
	}, sound)
	m.golden.expect(phase+", release", func() error { return m.take().Release(context.Background()) }, sound)
}

func (m *matrix) acquire() error {
	lock, err := m.client.TryAcquire(context.Background(), "wanted", 50*time.Second)
	if err == nil {
		_ = lock.Release(context.Background())
	}
	return err
}

const many = 20

// releaseMany releases many locks at once, so that they are merged, and checks
// the debts (R8).
func (m *matrix) releaseMany(which []int) {
	m.Helper()
	var locks []redlock.Lock
	for range many {
		locks = append(locks, m.take())
	}
	for i, err := range releaseAll(context.Background(), locks) {
		m.golden.tell(err)
		if len(which) == 1 && err != nil && !errors.Is(err, multiplex.ErrTimeout) {
			m.Errorf("release %d: %v", i, err)
		}
	}
	eventually(m, inTheEnd, func() error {
		for _, i := range which {
			n := m.client.Nodes()[i]
			if m.owes && n.Debts < many || !m.owes && len(which) > 1 && n.Debts > 0 {
				return fmt.Errorf("node %d owes %d releases", i, n.Debts)
			}
		}
		return nil
	})
}

// connects returns how many connections the servers have seen, less those of
// the test, by node.
func (m *matrix) connects(which []int) map[int]int {
	m.Helper()
	seen := make(map[int]int)
	for _, i := range which {
		stats := m.do(i, "INFO", "stats").(string)
		for _, field := range []string{"total_connections_received", "rejected_connections"} {
			found := regexp.MustCompile(field + `:(\d+)`).FindStringSubmatch(stats)
			n, _ := strconv.Atoi(found[1])
			seen[i] += n
		}
		seen[i] -= m.asked[i]
	}
	return seen
}

// fewConnects compares the connects with a budget of at most 75 a minute:
// fourteen at once, and then one a second, with a fifth for the edges. With
// refused credentials there is one, then one after a second, after two more, …
// (R26).
func (m *matrix) fewConnects(before, after map[int]int, lasted time.Duration) {
	m.Helper()
	for i, n := range after {
		made := n - before[i]
		most := 14 + int(1.2*lasted.Seconds())
		if m.credentials {
			most = 2 + int(lasted.Seconds())
		}
		if made > most {
			m.Errorf("R26: node %d was connected to %d times within %v", i, made, lasted)
		}
	}
}
