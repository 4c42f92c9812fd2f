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

// kill -9 of one of five under load, and an empty restart: nobody notices, and the node counts again soon after it accepts
// connections (R26).
func TestFaultKilledAndRestartedEmpty_R26(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP)
	c := f.client(redlock.Config{})
	f.allUp(c, 5*time.Second)
	l := f.load(c, workload{callers: 32})
	for range 2 {
		time.Sleep(200 * time.Millisecond)
		if err := f.servers[3].Kill(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		if err := f.servers[3].Restart(); err != nil {
			t.Fatal(err)
		}
		back := f.state(c, 3, 5*time.Second, "up")
		t.Logf("counts again %v after it accepted connections", back)
		if back > timingSlack*1200*time.Millisecond {
			t.Errorf("R26: it counted again only %v after it accepted connections", back)
		}
		f.allUp(c, 2*time.Second)
	}
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	f.noOrphans(time.Second)
}

// All our connections are killed again and again, on one server or another. Attempts may fail, but a lock that was granted
// is on a quorum, no caller gets another's answer, and nothing remains (R8, R16, R17).
func TestFaultClientKillInALoop_R8_R16(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP)
	leastPrivilege(f, "")
	c := f.client(redlock.Config{Username: "redlock", Password: "secret of the test", Prefix: "lock:"})
	f.allUp(c, 5*time.Second)
	var inspected atomic.Int64
	l := f.load(c, workload{callers: 64, inspect: func(lock redlock.Lock) {
		inspected.Add(1)
		token := lock.Token()
		if n := f.on("lock:"+lock.Resource(), string(token[:])); n < 3 && lock.Validity() > 0 {
			t.Errorf("a lock that was granted stands on %d of 5 servers", n)
		}
	}})
	killed := int64(0)
	for range 25 {
		n, _ := f.must(rand.IntN(5), "CLIENT", "KILL", "USER", "redlock").(int64)
		killed += n
		time.Sleep(rand.N(120 * time.Millisecond))
	}
	l.end()
	f.allUp(c, 5*time.Second)
	l.fails(-1, redlock.ErrNoQuorum)
	grants := l.granted(0, maxLoad*time.Millisecond)
	t.Logf("%d connections killed, %d grants, %d of them inspected, %v", killed, grants, inspected.Load(), l.errs)
	if killed < 10 || grants < 500 || inspected.Load() < 20 {
		t.Errorf("too little happened for this test to mean anything")
	}
	f.noOrphans(time.Second)
}

// Scripts that are flushed under load are loaded again on the same connection, and no release or extension is lost (R24).
func TestFaultScriptFlushUnderLoad_R24(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{})
	f.allUp(c, 5*time.Second)
	l := f.load(c, workload{callers: 32, fresh: true, inspect: func(lock redlock.Lock) {
		if _, err := lock.Extend(context.Background(), time.Minute); err != nil {
			t.Errorf("Extend: %v", err)
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
	t.Logf("%d flushes, %d grants", flushes, l.granted(0, maxLoad*time.Millisecond))
	l.fails(fewFailures, redlock.ErrNoQuorum)
	for i, n := range c.Nodes() {
		if n.Connects != 1 {
			t.Errorf("node %d was connected %d times: the cure was to use the same connection", i, n.Connects)
		}
	}
	f.noOrphans(time.Second)
}

// The detached release of a failed attempt finds its script gone, and nobody calls again (R24).
func TestFaultScriptFlushAndNobodyCallsAgain_R24(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{})
	f.allUp(c, 5*time.Second)
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
			eventually(t, 500*time.Millisecond, func() error {
				if f.must(i, "EXISTS", "taken") != int64(0) {
					return fmt.Errorf("server %d still has the key", i)
				}
				return nil
			})
		}
	}
}

// A master that refuses every write for want of replicas refuses the release too: what it has it keeps, and is told again
// until it obeys (R8, R24). One such node hurts nobody; three are named, each with its cause.
func TestFaultNoReplicas_R8_R24(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{NodeTimeout: 500 * time.Millisecond})
	f.allUp(c, 5*time.Second)
	for _, refusing := range [][]int{{0}, {1, 2, 4}} {
		t.Run(fmt.Sprintf("%d nodes", len(refusing)), func(t *testing.T) {
			f := &fleet{t, f.servers}
			var locks []redlock.Lock
			for i := range 300 {
				locks = append(locks, acquired(t, c, fmt.Sprint("r:", i), time.Minute))
			}
			f.each(refusing, refuseWrites("1"))
			f.releaseRefused(c, locks, refusing)
			f.attemptRefused(c, refusing)
			time.Sleep(100 * time.Millisecond)
			for _, i := range refusing {
				if n := len(f.keys(i, nil)); n != len(locks) {
					t.Errorf("server %d has %d keys, not %d", i, n, len(locks))
				}
			}
			f.each(refusing, refuseWrites("0"))
			took := f.noOrphans(5 * time.Second)
			t.Logf("orphans are gone %v after the nodes obeyed again", took)
			if took > timingSlack*1500*time.Millisecond {
				t.Errorf("R26: debts were paid only after %v", took)
			}
			f.allUp(c, 3*time.Second)
		})
	}
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

// A password that is changed while we are connected, and then the connections are killed: the node is down for a reason
// that is told, hardly any connection is tried, and the password is in no text (R26, R27).
func TestFaultPasswordChanged_R26_R27(t *testing.T) {
	const password, other = "correct horse battery staple", "changed in the night"
	f := newFleet(t, 5, redistest.OverTCP, redistest.Password(password))
	c := f.client(redlock.Config{NodeTimeout: 500 * time.Millisecond})
	f.allUp(c, 5*time.Second)
	l := f.load(c, workload{callers: 16})
	f.must(0, "CONFIG", "SET", "requirepass", other)
	f.servers[0].Authenticate("", other)
	before := connections(f, 0)
	f.must(0, "CLIENT", "KILL", "TYPE", "normal")
	eventually(t, 3*time.Second, func() error {
		if class := conn.ErrorClass(c.Nodes()[0].Err); class != conn.ClassWrongPass {
			return fmt.Errorf("the cause of node 0 is of class %q: %v", class, c.Nodes()[0].Err)
		}
		return nil
	})
	time.Sleep(2 * time.Second)
	// Two of the new connections are ours: KILL's and this question's.
	if n := connections(f, 0) - before - 2; n > 3 {
		t.Errorf("R26: %d connections with wrong credentials within 2 s", n)
	}
	var told []string
	for _, n := range c.Nodes() {
		told = append(told, fmt.Sprintf("%+v", n))
	}
	f.must(0, "CONFIG", "SET", "requirepass", password)
	f.servers[0].Authenticate("", password)
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	told = append(told, threeWrongPasswords(f)...)
	for _, text := range told {
		if strings.Contains(text, password) || strings.Contains(text, other) || strings.Contains(text, "horse") {
			t.Errorf("R27: the password is told: %s", text)
		}
	}
	t.Logf("counts again after %v more", f.state(c, 0, 5*time.Second, "up"))
	f.allUp(c, time.Second)
	f.noOrphans(time.Second)
}

// connections is how many a server has accepted, the one for this question included.
func connections(f *fleet, server int) int {
	f.Helper()
	found := regexp.MustCompile(`total_connections_received:(\d+)`).FindStringSubmatch(f.must(server, "INFO", "stats").(string))
	n, _ := strconv.Atoi(found[1])
	return n
}

// threeWrongPasswords collects the texts of errors of a client that three nodes refuse.
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
	c, err := redlock.New(redlock.Config{Nodes: nodes})
	if err != nil {
		f.Fatal(err)
	}
	defer c.Close(context.Background())
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

// A server that has too many clients says so before any command; it comes back by itself (R16, R26).
func TestFaultMaxClients_R16_R26(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{NodeTimeout: 500 * time.Millisecond})
	f.allUp(c, 5*time.Second)
	l := f.load(c, workload{callers: 16})
	// The connection of this command is the one client that the server has from now on.
	blocker := newSide(f, 0)
	blocker.must("CONFIG SET maxclients 1")
	blocker.must("CLIENT KILL TYPE normal SKIPME yes")
	eventually(t, 3*time.Second, func() error {
		if err := c.Nodes()[0].Err; conn.ErrorClass(err) != conn.ClassMaxClients {
			return fmt.Errorf("the cause of node 0 is %v", err)
		}
		return nil
	})
	time.Sleep(time.Second)
	blocker.must("CONFIG SET maxclients 1000")
	back := f.state(c, 0, 3*time.Second, "up")
	t.Logf("counts again after %v", back)
	if back > timingSlack*1200*time.Millisecond {
		t.Errorf("R26: counts again only after %v", back)
	}
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	f.allUp(c, 2*time.Second)
	f.noOrphans(time.Second)
}

// A node that kills every connection is connected at most 75 times a minute: fifteen at once, then one a second (R26).
func TestFaultConnectsAreFew_R26(t *testing.T) {
	f := newFleet(t, 5)
	c := f.client(redlock.Config{})
	f.allUp(c, 5*time.Second)
	l := f.load(c, workload{callers: 4})
	killer := newSide(f, 4)
	before := connections(f, 4)
	const kills = 1500 * time.Millisecond
	for l.now() < kills {
		killer.must("CLIENT KILL TYPE normal SKIPME yes")
		time.Sleep(time.Millisecond)
	}
	connects := connections(f, 4) - before - 1
	t.Logf("%d connects in %v", connects, kills)
	if connects > 15+int(kills/time.Second)+1 || connects < 3 {
		t.Errorf("%d connects in %v", connects, kills)
	}
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	f.allUp(c, 3*time.Second)
	f.noOrphans(time.Second)
}

// leastPrivilege makes the user redlock with exactly what is needed, but for what is taken away.
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

// The least privileges are enough for everything, the fence included (R8, R22), and where CLIENT KILL is forbidden the
// release is repeated until the late SET cannot harm any more. Without MGET, merged releases look at their keys one by one.
func TestFaultLeastPrivilege_R8_R22(t *testing.T) {
	for name, without := range map[string]string{"all of them": "", "without CLIENT KILL": "+client|kill", "without MGET": "+mget"} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 5)
			leastPrivilege(f, without)
			c := f.client(redlock.Config{Username: "redlock", Password: "secret of the test", Prefix: "lock:"})
			f.allUp(c, 5*time.Second)
			lock := acquired(t, c, "x", 10*time.Second)
			longer, err := lock.Extend(context.Background(), 20*time.Second)
			if err != nil || longer.Validity() < 15*time.Second {
				t.Fatalf("Extend: %v, %v", longer.Validity(), err)
			}
			if _, err := c.TryAcquire(context.Background(), "x", time.Second); !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("a held lock: %v", err)
			}
			if err := longer.Release(context.Background()); err != nil {
				t.Errorf("Release: %v", err)
			}
			l := f.load(c, workload{callers: 64, fresh: true})
			time.Sleep(50 * time.Millisecond)
			f.stop(0)
			f.state(c, 0, 3*time.Second, "down", "dialing")
			l.end()
			f.continues(0)
			f.state(c, 0, 3*time.Second, "up")
			// The first repetition comes after 250 ms.
			f.noOrphans(time.Second)
			for i := range f.servers {
				log := fmt.Sprint(f.must(i, "ACL", "LOG"))
				if without == "" && strings.Contains(log, "reason") && !harmless(log) {
					t.Errorf("server %d refused something: %s", i, log)
				}
			}
		})
	}
}

// harmless refusals are of what nobody needs: CLIENT INFO is asked and not granted, CLIENT SETINFO is younger than 7.0.
func harmless(log string) bool {
	for _, object := range regexp.MustCompile(`object (\S+)`).FindAllStringSubmatch(log, -1) {
		if object[1] != "client|info" && object[1] != "client|setinfo" && object[1] != "client" {
			return false
		}
	}
	return true
}
