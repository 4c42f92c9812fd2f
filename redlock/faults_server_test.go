package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// kill -9 of one of five under load, and an empty restart: callers are not
// affected, and the node counts again soon after it accepts connections (R26).
func TestFaultKilledAndRestartedEmpty_R26(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	l := f.load(c, workload{callers: 32})
	for range 2 {
		bestOf(t, func() error {
			time.Sleep(200 * time.Millisecond)
			if err := f.servers[3].Kill(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond)
			if err := f.servers[3].Restart(); err != nil {
				t.Fatal(err)
			}
			back := f.state(c, 3, inTheEnd, "up")
			t.Logf("counts again %v after it accepted connections", back)
			f.allUp(c, inTheEnd)
			if back > timingSlack*1200*time.Millisecond {
				return fmt.Errorf("R26: it counted again only %v after it accepted connections", back)
			}
			return nil
		})
	}
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	f.noOrphans(unprompted)
}

// All our connections are killed again and again, on one server or another.
// Attempts may fail, but a granted lock is on a quorum, no caller gets
// another's answer, and nothing remains (R8, R16, R17).
func TestFaultClientKillInALoop_R8_R16(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP)
	leastPrivilege(f, "")
	c := f.client(redlock.Config{Username: "redlock", Password: "secret of the test", Prefix: "lock:"})
	f.allUp(c, inTheEnd)
	var inspected atomic.Int64
	l := f.load(c, workload{callers: 64, inspect: func(lock redlock.Lock) {
		inspected.Add(1)
		token := lock.Token()
		if n := f.on("lock:"+lock.Resource(), string(token[:])); n < 3 && lock.Validity() > 0 {
			t.Errorf("a lock that was granted stands on %d of 5 servers", n)
		}
	}})
	killed := int64(0)
	enough := func() bool { return killed >= 10 && l.granted(0, l.now()) >= 500 && inspected.Load() >= 20 }
	for i := 0; i < 25 || !enough() && l.now() < inTheEnd; i++ {
		n, _ := f.must(rand.IntN(5), "CLIENT", "KILL", "USER", "redlock").(int64)
		killed += n
		time.Sleep(rand.N(120 * time.Millisecond))
	}
	l.end()
	f.allUp(c, inTheEnd)
	l.fails(-1, redlock.ErrNoQuorum)
	grants := l.granted(0, maxLoad*time.Millisecond)
	t.Logf("%d connections killed, %d grants, %d of them inspected, %v", killed, grants, inspected.Load(), l.errs)
	if killed < 10 || grants < 500 || inspected.Load() < 20 {
		t.Errorf("too little happened for this test to mean anything")
	}
	f.noOrphans(unprompted)
}

// Scripts that are flushed under load are loaded again on the same connection,
// and no release or extension is lost (R24).
func TestFaultScriptFlushUnderLoad_R24(t *testing.T) {
	f := newFleet(t, 5)
	bestOf(t, f.flushScripts)
}

func (f *fleet) flushScripts() error {
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	defer c.Close(context.Background())
	f.allUp(c, inTheEnd)
	l := f.load(c, workload{callers: 32, fresh: true, inspect: func(lock redlock.Lock) {
		if _, err := lock.Extend(context.Background(), time.Minute); err != nil {
			f.Errorf("Extend: %v", err)
		}
	}})
	flushes := 0
	for l.now() < time.Second {
		for i := range f.servers {
			f.must(i, "SCRIPT", "FLUSH")
			flushes++
		}
		time.Sleep(2 * time.Millisecond)
	}
	l.end()
	f.Logf("%d flushes, %d grants", flushes, l.granted(0, maxLoad*time.Millisecond))
	l.fails(fewFailures, redlock.ErrNoQuorum)
	return f.curedInPlace(c, l)
}

// curedInPlace checks after a load that no caller waited long for a cure, that
// every node answers, and that no connection ended, since a lost script must be
// cured on the same one. A node that a busy machine starves until it is
// thousands of rounds behind the others is given up all the same (R26): then
// another measurement, with another client, must do.
func (f *fleet) curedInPlace(c *redlock.Client, l *load) (late error) {
	f.Helper()
	f.noOrphans(unprompted)
	f.allUp(c, inTheEnd) // a node that was given up may still be paying, and gets no command before that is done
	f.allAnswer(c)
	whole := []span{{0, l.now()}}
	grants, p99 := l.granted(0, l.now()), l.p99(whole)
	f.Logf("p99 %v", p99)
	if grants < 100 || p99 > timingSlack*200*time.Millisecond {
		late = fmt.Errorf("%d grants, p99 %v", grants, p99)
	}
	for i, n := range c.Nodes() {
		behind := n.Counts.Deaths["silent"] + n.Counts.Deaths["stalled"]
		if behind > 0 {
			late = fmt.Errorf("node %d was given up %d times", i, behind)
		} else if n.Connects != 1 {
			f.Errorf("node %d was connected %d times", i, n.Connects)
		}
		for cause, count := range n.Counts.Deaths {
			switch {
			case cause == "silent", cause == "stalled", cause == "forgot" && behind > 0: // lost before it joined again
			default:
				f.Errorf("%d connections of node %d ended: %s", count, i, cause)
			}
		}
	}
	return late
}

// allAnswer checks that each node of an idle client answers now. A long vote
// timeout would hide for as long that one does not.
func (f *fleet) allAnswer(c *redlock.Client) {
	f.Helper()
	answered := func() (all []uint64) {
		for _, n := range c.Nodes() {
			all = append(all, n.Counts.Granted+n.Counts.Refused+n.Counts.Late)
		}
		return all
	}
	before := answered()
	lock := acquired(f, c, "answer", time.Minute)
	if err := lock.Release(context.Background()); err != nil {
		f.Errorf("Release: %v", err)
	}
	eventually(f, unprompted, func() error {
		for i, n := range answered() {
			if n < before[i]+2 {
				return fmt.Errorf("node %d has answered %d of 2 commands", i, n-before[i])
			}
		}
		return nil
	})
}

// The detached release of a failed attempt finds its script gone, and there is
// no other call (R24).
func TestFaultScriptFlushAndNobodyCallsAgain_R24(t *testing.T) {
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
}

// A master that refuses every write because it has no replicas also refuses the
// release: it keeps its keys, and is asked again until it obeys (R8, R24). One
// such node does no harm; three are named, each with its cause.
func TestFaultNoReplicas_R8_R24(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	for _, refusing := range [][]int{{0}, {1, 2, 4}} {
		t.Run(fmt.Sprintf("%d nodes", len(refusing)), func(t *testing.T) {
			f := &fleet{t, f.servers}
			bestOf(t, func() error { return f.refuseReleases(c, refusing) })
		})
	}
}

// refuseReleases measures when the nodes that refused have been paid.
func (f *fleet) refuseReleases(c *redlock.Client, refusing []int) error {
	var locks []redlock.Lock
	for i := range 300 {
		locks = append(locks, acquired(f, c, fmt.Sprint("r:", i), time.Minute))
	}
	eventually(f, inTheEnd, func() error { // a grant does not wait for the slowest node
		for i := range f.servers {
			if n := len(f.keys(i, nil)); n != len(locks) {
				return fmt.Errorf("server %d has %d keys, not %d", i, n, len(locks))
			}
		}
		return nil
	})
	f.each(refusing, refuseWrites("1"))
	f.releaseRefused(c, locks, refusing)
	f.attemptRefused(c, refusing)
	time.Sleep(100 * time.Millisecond)
	for _, i := range refusing {
		if n := len(f.keys(i, nil)); n != len(locks) {
			f.Errorf("server %d has %d keys, not %d", i, n, len(locks))
		}
	}
	f.each(refusing, refuseWrites("0"))
	took := f.noOrphans(inTheEnd)
	f.Logf("orphans are gone %v after the nodes obeyed again", took)
	f.allUp(c, inTheEnd)
	if took > timingSlack*1500*time.Millisecond {
		return fmt.Errorf("R26: debts were paid only after %v", took)
	}
	return nil
}

func refuseWrites(replicas string) func(*redistest.Server) error {
	return func(s *redistest.Server) error {
		_, err := s.Do("CONFIG", "SET", "min-replicas-to-write", replicas)
		return err
	}
}

func (f *fleet) releaseRefused(c *redlock.Client, locks []redlock.Lock, refusing []int) {
	f.Helper()
	var wg sync.WaitGroup
	for _, lock := range locks {
		wg.Go(func() {
			err := lock.Release(context.Background())
			if len(refusing) < 3 && err != nil {
				f.Errorf("Release with a quorum of answers: %v", err)
			}
			if len(refusing) >= 3 {
				f.namesNoReplicas(err, refusing)
			}
		})
	}
	wg.Wait()
}

// attemptRefused acquires for a while.
func (f *fleet) attemptRefused(c *redlock.Client, refusing []int) {
	f.Helper()
	if len(refusing) >= 3 {
		for i := range 50 {
			_, err := c.TryAcquire(context.Background(), fmt.Sprint("refused:", i), time.Minute)
			f.namesNoReplicas(err, refusing)
		}
		return
	}
	l := f.load(c, workload{callers: 32})
	time.Sleep(500 * time.Millisecond)
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	f.Logf("%.0f pairs/s with a node that refuses; it owes %d releases", l.rate([]span{{0, l.now()}}), c.Nodes()[refusing[0]].Debts)
}

// namesNoReplicas checks that an error names each of the nodes with NOREPLICAS.
func (f *fleet) namesNoReplicas(err error, nodes []int) {
	f.Helper()
	noReplicas := func(err error) bool {
		var refusal *multiplex.RefusalError
		return errors.As(err, &refusal) && refusal.Class == conn.ClassNoReplicas && strings.Contains(err.Error(), "NOREPLICAS")
	}
	if err := undecided(err, noReplicas, nodes...); err != nil {
		f.Error(err)
	}
}

// A password is changed under a connected client, and then the connections are
// killed: the node is down with its reason, is rarely dialed, and the password
// is in no text (R26, R27).
func TestFaultPasswordChanged_R26_R27(t *testing.T) {
	const password, other = "correct horse battery staple", "changed in the night"
	f := newFleet(t, 5, redistest.OverTCP, redistest.Password(password))
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	l := f.load(c, workload{callers: 16, ttl: 2 * time.Minute})
	wrong := time.Now()
	f.must(0, "CONFIG", "SET", "requirepass", other)
	f.servers[0].Authenticate("", other)
	before := connections(f, 0)
	f.must(0, "CLIENT", "KILL", "TYPE", "normal")
	eventually(t, inTheEnd, func() error {
		if class := conn.ErrorClass(c.Nodes()[0].Err); class != conn.ClassWrongPass {
			return fmt.Errorf("the cause of node 0 is of class %q: %v", class, c.Nodes()[0].Err)
		}
		return nil
	})
	time.Sleep(2 * time.Second)
	// Two of the new connections are the test's: that of KILL and that of this
	// query.
	if n := connections(f, 0) - before - 2; n > 3 {
		t.Errorf("R26: %d connections with wrong credentials within 2 s", n)
	}
	var told []string
	for _, n := range c.Nodes() {
		told = append(told, fmt.Sprintf("%+v", n))
	}
	f.must(0, "CONFIG", "SET", "requirepass", password)
	f.servers[0].Authenticate("", password)
	right := time.Now()
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	told = append(told, threeWrongPasswords(f)...)
	for _, text := range told {
		if strings.Contains(text, password) || strings.Contains(text, other) || strings.Contains(text, "horse") {
			t.Errorf("R27: the password is told: %s", text)
		}
	}
	f.state(c, 0, 40*time.Second, "up")
	f.allUp(c, inTheEnd)
	// The second try comes after a second, the third after two more, and so on;
	// then R26 allows time to recover and pay.
	took, bound := time.Since(right), right.Sub(wrong)+time.Second+1500*time.Millisecond
	t.Logf("counts again after %v more", took)
	if took > timingSlack*bound {
		t.Errorf("R26: recovered and paid only after %v, not within %v", took, bound)
	}
	f.noOrphans(unprompted)
}

// connections returns how many a server has accepted, including the one for
// this query.
func connections(f *fleet, server int) int {
	f.Helper()
	found := regexp.MustCompile(`total_connections_received:(\d+)`).FindStringSubmatch(f.must(server, "INFO", "stats").(string))
	n, _ := strconv.Atoi(found[1])
	return n
}

// threeWrongPasswords collects the error texts of a client that three nodes
// refuse.
func threeWrongPasswords(f *fleet) (texts []string) {
	f.Helper()
	var nodes []string
	for i, s := range f.servers {
		url := s.URL()
		if i < 3 {
			url = strings.Replace(url, "staple", "stapler", 1)
		}
		nodes = append(nodes, url)
	}
	c, err := redlock.New(context.Background(), redlock.Config{Nodes: redlock.Nodes(nodes...), NodeTimeout: unhurried, Forgetful: true})
	if err != nil {
		f.Fatal(err)
	}
	defer c.Close(context.Background())
	eventually(f, inTheEnd, func() error { // on a busy machine New does not wait for all of them
		for i, n := range c.Nodes() {
			if class := conn.ErrorClass(n.Err); (class == conn.ClassWrongPass) != (i < 3) || (n.State == "up") != (i >= 3) {
				return fmt.Errorf("node %d is %s: %v", i, n.State, n.Err)
			}
		}
		return nil
	})
	_, err = c.TryAcquire(context.Background(), "x", time.Second)
	if problem := undecided(err, is(multiplex.ErrDown), 0, 1, 2); problem != nil {
		f.Error(problem)
	}
	if class := conn.ErrorClass(err); class != conn.ClassWrongPass {
		f.Errorf("the error's class is %q: %v", class, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	ready := c.Ready(ctx)
	if !errors.Is(ready, redlock.ErrNoQuorum) || !errors.Is(ready, context.DeadlineExceeded) {
		f.Errorf("Ready: %v", ready)
	}
	return []string{err.Error(), fmt.Sprintf("%+v", err), ready.Error(), fmt.Sprintf("%+v %#v", c.Nodes(), c.Nodes())}
}

// A server with too many clients says so before any command; the node comes
// back by itself (R16, R26).
func TestFaultMaxClients_R16_R26(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	l := f.load(c, workload{callers: 16})
	// From now on the connection of this command is the only client of the
	// server.
	blocker := newSide(f, 0)
	bestOf(t, func() error {
		blocker.must("CONFIG SET maxclients 1")
		blocker.must("CLIENT KILL TYPE normal SKIPME yes")
		eventually(t, inTheEnd, func() error {
			if err := c.Nodes()[0].Err; conn.ErrorClass(err) != conn.ClassMaxClients {
				return fmt.Errorf("the cause of node 0 is %v", err)
			}
			return nil
		})
		time.Sleep(time.Second)
		blocker.must("CONFIG SET maxclients 1000")
		back := f.state(c, 0, inTheEnd, "up")
		t.Logf("counts again after %v", back)
		if back > timingSlack*1200*time.Millisecond {
			return fmt.Errorf("R26: counts again only after %v", back)
		}
		return nil
	})
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	f.allUp(c, inTheEnd)
	f.noOrphans(unprompted)
}

// A node that kills every connection is connected at most 75 times a minute:
// fifteen at once, then one a second (R26).
func TestFaultConnectsAreFew_R26(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	l := f.load(c, workload{callers: 4})
	killer := newSide(f, 4)
	before := connections(f, 4)
	begun, connects := time.Now(), 0
	for time.Since(begun) < 1500*time.Millisecond || connects < 3 && time.Since(begun) < inTheEnd {
		killer.must("CLIENT KILL TYPE normal SKIPME yes")
		time.Sleep(time.Millisecond)
		connects = connections(f, 4) - before - 1
		before++ // that of the query
	}
	kills := time.Since(begun)
	t.Logf("%d connects in %v", connects, kills)
	if connects > 15+int(kills/time.Second)+1 || connects < 3 {
		t.Errorf("%d connects in %v", connects, kills)
	}
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	f.allUp(c, inTheEnd)
	f.noOrphans(unprompted)
}

// leastPrivilege gives the user redlock exactly the necessary rights, except
// without.
func leastPrivilege(f *fleet, without string) {
	f.Helper()
	rules := strings.Fields("reset on resetchannels ~lock:* " + redlock.ACLRights)
	rules = slices.DeleteFunc(rules, func(r string) bool { return r == without })
	rules = append(rules, ">secret of the test")
	for i := range f.servers {
		own := rules
		for _, native := range nativeCommands(f.servers[i]) { // R25
			own = append(own[:len(own):len(own)], "+"+native)
		}
		f.must(i, append([]string{"ACL", "SETUSER", "redlock"}, own...)...)
	}
}

// The least privileges suffice for everything, including the fence (R8, R22).
// If CLIENT KILL is forbidden, the release is repeated until a late SET can do
// no harm. Without MGET, merged releases look at their keys one by one.
func TestFaultLeastPrivilege_R8_R22(t *testing.T) {
	for name, without := range map[string]string{"all of them": "", "without CLIENT KILL": "+client|kill", "without MGET": "+mget"} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 5)
			leastPrivilege(f, without)
			config := redlock.Config{
				Username: "redlock", Password: "secret of the test", Prefix: "lock:", NodeTimeout: unhurried,
			}
			c := f.client(config)
			f.allUp(c, inTheEnd)
			lock := acquired(t, c, "x", 10*time.Second)
			longer, err := lock.Extend(context.Background(), 20*time.Second)
			if err != nil || longer.Validity() < 12*time.Second {
				t.Fatalf("Extend: %v, %v", longer.Validity(), err)
			}
			if _, err := c.TryAcquire(context.Background(), "x", time.Second); !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("a held lock: %v", err)
			}
			if err := longer.Release(context.Background()); err != nil {
				t.Errorf("Release: %v", err)
			}
			config.NodeTimeout = 0 // otherwise the silence would be noticed late
			c = f.client(config)
			f.allUp(c, inTheEnd)
			bestOf(t, func() error {
				l := f.load(c, workload{callers: 64, fresh: true})
				time.Sleep(50 * time.Millisecond)
				f.stop(0)
				f.state(c, 0, inTheEnd, "down", "dialing")
				l.end()
				f.continues(0)
				f.state(c, 0, inTheEnd, "up")
				if took := f.noOrphans(inTheEnd); took > repeatedWithin {
					return fmt.Errorf("no orphan only after %v", took)
				}
				return nil
			})
			for i := range f.servers {
				log := fmt.Sprint(f.must(i, "ACL", "LOG"))
				if without == "" && strings.Contains(log, "reason") && !harmless(log) {
					t.Errorf("server %d refused something: %s", i, log)
				}
			}
		})
	}
}

// harmless refusals are of CLIENT SETINFO, which is newer than 7.0.
func harmless(log string) bool {
	for _, object := range regexp.MustCompile(`object (\S+)`).FindAllStringSubmatch(log, -1) {
		if object[1] != "client|setinfo" {
			return false
		}
	}
	return true
}
