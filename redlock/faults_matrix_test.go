package redlock_test

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
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
	"github.com/redmux/redmux/resp"
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
	m.during("one of five", []int{1}, func() {
		m.operations("one of five", func(err error) error { return err })
		l.until(100, inTheEnd) // the others go on (R5)
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

var update = flag.Bool("update", false, "rewrite the golden files of testdata/errors")

// A golden is the file of one state: the texts that a caller gets. An entry is
// a line with a place, and the error's text below it, one node per line.
type golden struct {
	testing.TB
	path    string
	about   string
	servers *fleet
	want    map[string]string // the content of the file, by the text before the first colon
	got     []string
	told    []string // every text that was shown (R27)
}

func newGolden(f *fleet, name, about string) *golden {
	f.Helper()
	g := &golden{TB: f, path: filepath.Join("..", "testdata", "errors", name+".txt"), about: about, servers: f}
	g.want = make(map[string]string)
	text, err := os.ReadFile(g.path)
	if err != nil && !*update {
		f.Fatal(err)
	}
	for _, entry := range regexp.MustCompile(`(?m)^[^#\s].*\n(?:    .*\n)*`).FindAllString(string(text), -1) {
		where, _, _ := strings.Cut(entry, ":")
		g.want[where] = entry
	}
	return g
}

// mostTries is how often a busy server is asked: each try may take a lock from
// the stock, and all of them take some three seconds.
const mostTries = 35

// expect asks until the answer is sound and matches the file: a node that goes
// down may be described differently for a moment, and a vote may come late on a
// busy machine. An answer that never matches is not noise.
func (g *golden) expect(where string, ask func() error, sound func(error) error) {
	g.Helper()
	var entry string
	var problem error
	for start, tries := time.Now(), 1; ; tries++ {
		err := ask()
		g.tell(err)
		entry = where + ": " + g.describe(err)
		problem = sound(err)
		settled := entry == g.want[where] || *update && tries > 2
		if problem == nil && settled || time.Since(start) > time.Second && tries >= mostTries {
			break
		}
		time.Sleep(time.Duration(5*min(tries, mostTries)) * time.Millisecond)
	}
	if problem != nil {
		g.Errorf("%s: %v", where, problem)
	}
	g.got = append(g.got, entry)
}

// check compares with the file, or writes it.
func (g *golden) check() {
	g.Helper()
	if *update {
		text := "# " + g.about + "\n# Written by: go test ./redlock -run TestErrorMatrix -update\n\n" + strings.Join(g.got, "")
		if err := os.WriteFile(g.path, []byte(text), 0o600); err != nil {
			g.Fatal(err)
		}
		return
	}
	for _, entry := range g.got {
		where, _, _ := strings.Cut(entry, ":")
		if entry != g.want[where] {
			g.Errorf("%s says\n%snot\n%s", g.path, g.want[where], entry)
		}
		delete(g.want, where)
	}
	for where := range g.want {
		g.Errorf("%s has %q, which was not asked", g.path, where)
	}
}

// describe turns an error into a text that is the same in each run and for each
// server: it replaces addresses and the numbers of resources, and keeps only
// the first of the servers' own words.
func (g *golden) describe(err error) string {
	if err == nil {
		return "done\n"
	}
	text := inFewWords(err)
	for i, s := range g.servers.servers {
		text = strings.ReplaceAll(text, s.TCPAddr(), fmt.Sprintf("address%d", i))
	}
	text = regexp.MustCompile(`"stock:\d+"`).ReplaceAllString(text, `"stock"`)
	text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "ours")
	text = regexp.MustCompile(`([:;]) (node \d+ \()`).ReplaceAllString(text, "$1\n    $2")
	return outcome(err) + "\n    " + text + "\n"
}

// inFewWords returns an error's text with only the first of the servers' own
// words. Causes that differ in these words alone are listed as one, as they are
// if all servers are of one kind.
func inFewWords(err error) string {
	text := err.Error()
	var all *multiplex.UndecidedError
	if errors.As(err, &all) {
		few := multiplex.UndecidedError{Of: all.Of}
		for _, n := range all.Nodes {
			_, cause, _ := strings.Cut(n.Error(), n.Addr+"): ")
			few.Nodes = append(few.Nodes, &multiplex.NodeError{Node: n.Node, Addr: n.Addr, Err: errors.New(firstWords(cause, n))})
		}
		text = strings.Replace(text, strings.Join(all.Causes(), "; "), strings.Join(few.Causes(), "; "), 1)
	}
	return firstWords(text, err)
}

// firstWords returns a text with only the first word of each error reply in a
// chain.
func firstWords(text string, err error) string {
	for _, e := range chain(err) {
		if refusal, ok := e.(*resp.Error); ok {
			text = strings.ReplaceAll(text, refusal.Message, refusal.Prefix()+" …")
		}
	}
	return text
}

// outcome returns what an error is by errors.Is, and the class of each node's
// cause.
func outcome(err error) string {
	var all *multiplex.UndecidedError
	switch {
	case errors.Is(err, redlock.ErrHeld):
		return "ErrHeld"
	case errors.Is(err, redlock.ErrNotHeld):
		return "ErrNotHeld"
	case errors.Is(err, redlock.ErrNoQuorum) && errors.As(err, &all):
		var causes []string
		for _, n := range all.Nodes {
			causes = append(causes, cause(n))
		}
		return "ErrNoQuorum, " + strings.Join(causes, ", ")
	}
	return cause(err)
}

// cause returns a node's reason.
func cause(err error) string {
	if class := class(err); class != conn.ClassNone {
		return class.String()
	}
	switch {
	case errors.Is(err, multiplex.ErrTimeout):
		return "ErrTimeout"
	case errors.Is(err, multiplex.ErrSilent):
		return "ErrSilent"
	case errors.Is(err, multiplex.ErrNotMaster):
		return "ErrNotMaster"
	}
	return "unknown"
}

// class returns the class of a node's error, in the handshake or later (R24).
func class(err error) conn.Class {
	var refusal *multiplex.RefusalError
	if errors.As(err, &refusal) {
		return refusal.Class
	}
	return conn.ErrorClass(err)
}

// chain returns an error and all that it wraps.
func chain(err error) (all []error) {
	if err == nil {
		return nil
	}
	all = append(all, err)
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		all = append(all, chain(e.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, chain(inner)...)
		}
	}
	return all
}

// tell records all printed forms of some values, for errors also of all that
// they wrap.
func (g *golden) tell(values ...any) {
	for _, v := range values {
		g.told = append(g.told, fmt.Sprintf("%v %+v %#v", v, v, v))
		err, _ := v.(error)
		for _, e := range chain(err) {
			g.told = append(g.told, fmt.Sprintf("%v %+v %#v %q", e, e, e, e))
		}
	}
}

// keepsSecret checks that no recorded text contains a secret, in any usual
// spelling (R27).
func (g *golden) keepsSecret(secrets ...string) {
	g.Helper()
	slices.Sort(g.told)
	for _, text := range slices.Compact(g.told) {
		for _, s := range secrets {
			quoted := strings.Trim(fmt.Sprintf("%q", s), `"`)
			if strings.Contains(text, s) || strings.Contains(text, quoted) || strings.Contains(text, hex.EncodeToString([]byte(s))) {
				g.Errorf("R27: a secret is told in %q", text)
				break
			}
		}
	}
	if len(g.told) < 10 {
		g.Errorf("only %d texts were looked at", len(g.told))
	}
}
