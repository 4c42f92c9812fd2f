package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlocktest"
)

// Machines with the same clock ask at one instant and split the votes. Exactly
// one of them gets the lock all the same.
func TestContestAtOneInstant(t *testing.T) {
	const machines, times = 5, 10
	var asked atomic.Int32
	for range times {
		synctest.Test(t, func(t *testing.T) {
			d := redlocktest.New(t, 5)
			var all []*contest
			var locks atomic.Int32
			for range machines {
				client := d.Client(t, forgetful)
				all = append(all, &contest{client: client, resource: "job", most: 10 * time.Second, try: func(ctx context.Context) error {
					asked.Add(1)
					_, err := client.TryAcquire(ctx, "job", time.Minute)
					return err
				}})
			}
			for _, n := range d.Nodes() {
				n.Delay(time.Millisecond)
			}
			var wg sync.WaitGroup
			for _, c := range all {
				wg.Go(func() {
					err := c.run(t.Context())
					if err == nil {
						locks.Add(1)
						return
					}
					assert.ErrorIs(t, err, redlock.ErrHeld)
				})
			}
			wg.Wait()
			require.EqualValues(t, 1, locks.Load())
		})
	}
	require.Greater(t, asked.Load(), int32(machines*times), "else no votes were split, and nothing is tested")
}

// A lock that another client holds is asked for once. One that no client can
// get, because of remains, is asked for only as long as the contest may take. A
// signal ends it.
func TestContestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 4)
		client := d.Client(t, forgetful)
		asked := 0
		c := &contest{client: client, resource: "job", most: 300 * time.Millisecond, try: func(ctx context.Context) error {
			asked++
			_, err := client.TryAcquire(ctx, "job", time.Minute)
			return err
		}}
		_, err := client.Acquire(t.Context(), "job", time.Hour)
		require.NoError(t, err)
		require.ErrorIs(t, c.run(t.Context()), redlock.ErrHeld)
		require.Equal(t, 1, asked)

		synctest.Wait()
		d.Node(0).RestartEmpty()
		d.Node(1).RestartEmpty()
		time.Sleep(10 * time.Second) // until they are up again
		begun := time.Now()
		require.ErrorIs(t, c.run(t.Context()), redlock.ErrHeld)
		require.LessOrEqual(t, time.Since(begun), c.most)
		require.Greater(t, asked, 2)

		ctx, interrupt := context.WithCancelCause(t.Context())
		signal := &errInterrupted{}
		c.try = func(context.Context) error { time.AfterFunc(1, func() { interrupt(signal) }); return redlock.ErrHeld }
		require.ErrorIs(t, c.run(ctx), signal)
	})
}

// --wait includes the time that connecting took.
func TestWaitIncludesConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		_, err := d.Client(t, forgetful).Acquire(t.Context(), "job", time.Hour)
		require.NoError(t, err)
		wait := 2 * time.Second
		run := runCommand{waiting: waiting{Wait: &wait}, Resource: "job", lifetime: lifetime{time.Minute}}
		begun := time.Now()
		opened := &deployment{Timeout: time.Minute, opened: begun.Add(-1500 * time.Millisecond)}
		_, _, err = run.hold(&process{signals: make(chan os.Signal)}, opened, d.Client(t, forgetful))
		require.Error(t, err)
		require.InDelta(t, 500, time.Since(begun).Milliseconds(), 50)
	})
}

// What refuses an attempt depends on its form, and what less than a quorum has
// decides nothing: those who have it may be asking at the same instant.
func TestWhatIsInTheWay(t *testing.T) {
	one, two := 1, 2
	some, most := []int{0, 4}, []int{0, 2, 4}
	on := func(nodes ...[]int) (all []admin.Participant) {
		for i, n := range nodes {
			all = append(all, admin.Participant{Number: i, Nodes: n})
		}
		return all
	}
	shared, exclusive, fair, first, second := form{Shared: true}, form{Exclusive: true}, form{Fair: true}, form{Permits: &one}, form{Permits: &two}
	for _, c := range []struct {
		found admin.Inspection
		want  []form
	}{
		{admin.Inspection{}, nil},
		{admin.Inspection{Readers: on(some, some)}, nil},
		{admin.Inspection{Readers: on(most, some)}, []form{exclusive}},
		{admin.Inspection{WriterWaits: true}, []form{shared}},
		{admin.Inspection{Permits: 2, PermitsHeld: on(some, most)}, []form{first}},
		{admin.Inspection{Permits: 2, PermitsHeld: on(most, most)}, []form{first, second}},
		{admin.Inspection{Permits: 1, PermitsHeld: on(most)}, []form{first, second}},
		{admin.Inspection{Permits: 1, PermitsHeld: on(some)}, nil},
		{admin.Inspection{Queue: on(some)}, nil},
		{admin.Inspection{Queue: on(some, most)}, []form{fair}},
	} {
		c.found.Nodes = make([]admin.InspectedNode, 5)
		var got []form
		for _, f := range []form{{}, shared, exclusive, fair, first, second} {
			if f.inTheWay(c.found) {
				got = append(got, f)
			}
		}
		require.Equal(t, c.want, got, "%+v", c.found)
	}
}

// Half of an even number of nodes decides nothing.
func TestHalfOfTheNodesIsNotInTheWay(t *testing.T) {
	found := admin.Inspection{Nodes: make([]admin.InspectedNode, 4), Readers: []admin.Participant{{Nodes: []int{1, 3}}}}
	require.False(t, (&form{Exclusive: true}).inTheWay(found))
	require.Empty(t, participantsText(found))
	found.Readers[0].Nodes = []int{1, 2, 3}
	require.True(t, (&form{Exclusive: true}).inTheWay(found))
	require.NotEmpty(t, participantsText(found))
}

// An attempt for a lock of any form that does not wait ends as soon as a quorum
// of nodes shows what is in its way.
func TestContestKnowsWhatIsInTheWay(t *testing.T) {
	one, two := 1, 2
	for name, c := range map[string]struct {
		form
		before func(ctx context.Context, client *redlock.Client)
	}{
		"a reader": {form{Exclusive: true}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.RW("job").Read().TryAcquire(ctx, time.Hour)
		}},
		"a writer": {form{Shared: true}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.RW("job").Write().TryAcquire(ctx, time.Hour)
		}},
		"a writer that waits": {form{Shared: true}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.RW("job").Read().TryAcquire(ctx, time.Hour)
			go client.RW("job").Write().Acquire(ctx, time.Hour)
		}},
		"the permit": {form{Permits: &one}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.Semaphore("job", 1).TryAcquire(ctx, time.Hour)
		}},
		"both permits": {form{Permits: &two}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.Semaphore("job", 2).TryAcquire(ctx, time.Hour)
			_, _ = client.Semaphore("job", 2).TryAcquire(ctx, time.Hour)
		}},
		"more permits than that": {form{Permits: &one}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.Semaphore("job", 3).TryAcquire(ctx, time.Hour)
			_, _ = client.Semaphore("job", 3).TryAcquire(ctx, time.Hour)
		}},
		"a queue": {form{Fair: true}, func(ctx context.Context, client *redlock.Client) {
			_, _ = client.Fair("job").TryAcquire(ctx, time.Hour)
			go client.Fair("job").Acquire(ctx, time.Hour)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := redlocktest.New(t, 5)
				for _, n := range d.Nodes() {
					n.Delay(time.Millisecond)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c.before(ctx, d.Client(t, forgetful))
				time.Sleep(100 * time.Millisecond)
				run := runCommand{waiting: waiting{NoWait: true}, form: c.form, Resource: "job"}
				run.TTL = time.Minute
				p := &process{signals: make(chan os.Signal)}
				begun := time.Now()
				hold, _, err := run.hold(p, &deployment{Timeout: time.Second}, d.Client(t, forgetful))
				t.Log(time.Since(begun))
				require.ErrorIs(t, err, redlock.ErrHeld)
				require.Nil(t, hold)
				require.Less(t, time.Since(begun), 20*time.Millisecond)
			})
		})
	}
}

// hanging returns the flag for n masters that accept connections and never
// answer.
func hanging(t *testing.T, n int) string {
	t.Helper()
	var urls []string
	for i := range n {
		path := filepath.Join(t.TempDir(), "s"+string(rune('0'+i)))
		listener, err := net.Listen("unix", path)
		require.NoError(t, err)
		t.Cleanup(func() { listener.Close() })
		urls = append(urls, "unix://"+path)
	}
	return "--nodes=" + strings.Join(urls, ",")
}

// soon runs the program inside of the test, and fails the test if it does not
// end.
func soon(t *testing.T, args ...string) result {
	t.Helper()
	got := make(chan result, 1)
	go func() { got <- within(args...) }()
	select {
	case r := <-got:
		return r
	case <-time.After(patience):
		require.FailNow(t, "it does not end", "%s", args)
		return result{}
	}
}

// Without masters no command takes longer than its flags allow. The other bound
// is an hour in each case, so that a busy machine does not fail the test.
func TestFlagsBoundEveryCommandWithoutMasters_R26(t *testing.T) {
	const refusing = "--nodes=unix:///nowhere/0,unix:///nowhere/1,unix:///nowhere/2"
	token := handover{ttl: time.Hour, until: clock.Now().Add(time.Hour)}
	for i := range token.token {
		token.token[i] = 'A'
	}
	token.boot, _ = clock.BootID()
	t.Setenv(tokenVariable, token.reveal())
	silent := hanging(t, 3)
	for _, test := range []struct {
		args  string
		nodes string
	}{
		{"run -n --timeout=1h r -- true", refusing},
		{"run -w0 --timeout=1h r -- true", refusing},
		{"run -w300ms --timeout=1h r -- true", refusing},
		{"run -w0.3 --timeout=1h r -- true", silent},
		{"run -w1h --timeout=300ms r -- true", refusing},
		{"run -n --timeout=300ms r -- true", silent},
		{"run --timeout=300ms r -- true", silent},
		{"acquire -n --timeout=1h r", refusing},
		{"acquire -w300ms --timeout=1h r", refusing},
		{"acquire -w300ms --timeout=1h r", silent},
		{"acquire --timeout=300ms r", silent},
		{"extend --timeout=300ms r", refusing},
		{"extend --timeout=300ms r", silent},
		{"release --timeout=300ms r", refusing},
		{"release --timeout=300ms r", silent},
		{"release --force --yes --timeout=300ms r", silent},
		{"status --timeout=300ms r", silent},
		{"nodes --timeout=300ms --observe=0", silent},
	} {
		words := strings.Fields(test.args)
		begun := time.Now()
		r := soon(t, append([]string{words[0], test.nodes}, words[1:]...)...)
		assert.Equal(t, exitNoQuorum, r.code, "%s: %s", test.args, r.stderr)
		assert.NotEmpty(t, r.stderr, test.args)
		t.Logf("%s: %v", test.args, time.Since(begun).Round(time.Millisecond))
	}
}

// Masters that hang do not hold up what a quorum can answer, nor a command that
// does not wait. --timeout is an hour, so that a busy machine does not fail the
// test.
func TestMastersThatHangHoldUpNoCommand_R26(t *testing.T) {
	_, nodes := masters(t, 2)
	one := nodes + "," + strings.TrimPrefix(hanging(t, 1), "--nodes=")
	two := nodes + "," + strings.TrimPrefix(hanging(t, 3), "--nodes=")
	for _, test := range []struct {
		args, nodes string
		code        int
		says        string
	}{
		{"nodes --timeout=1h --observe=0", one, 0, "waiting for masters that do not answer"},
		{"nodes --timeout=1h --observe=1ms", one, 0, "waiting for masters that do not answer"},
		{"status --timeout=1h r", one, 0, "waiting for masters that do not answer"},
		{"status --timeout=TIME r", two, exitNoQuorum, "waiting for masters that do not answer"},
		{"doctor --timeout=TIME --observe=0", one, exitUnsafe, "waiting for masters that do not answer"},
		{"init --timeout=TIME", one, exitInUse, "waiting for masters that do not answer"},
		{"fence reset --timeout=TIME", one, exitNoQuorum, "waiting for masters that do not answer"},
		{"release --force --yes --timeout=TIME r", one, 0, "waiting for masters that do not answer"},
		{"run -n --timeout=1h r -- true", two, exitNoQuorum, "without a wait, 2s is the most"},
		{"run -w0 --timeout=1h r -- true", two, exitNoQuorum, "without a wait, 2s is the most"},
		{"acquire -n --timeout=1h r", two, exitNoQuorum, "without a wait, 2s is the most"},
		{"run -n --timeout=300ms r -- true", two, exitNoQuorum, "--timeout is 300ms"},
		{"acquire --timeout=300ms r", two, exitNoQuorum, "--timeout is 300ms"},
		{"run -w400ms --timeout=1h r -- true", two, exitNoQuorum, "--wait is 400ms"},
		{"run -w1h --timeout=300ms r -- true", two, exitNoQuorum, "--timeout is 300ms"},
	} {
		begun := time.Now()
		r := growing(900*time.Millisecond, func(r result) bool { return r.code == test.code }, func(timeout string) result {
			words := strings.Fields(strings.ReplaceAll(test.args, "TIME", timeout))
			return soon(t, append([]string{words[0], test.nodes}, words[1:]...)...)
		})
		t.Logf("%s: %v", test.args, time.Since(begun).Round(time.Millisecond))
		require.Equal(t, test.code, r.code, "%s: %s", test.args, r.stderr)
		require.Contains(t, r.stderr, test.says, test.args)
		if strings.HasPrefix(test.args, "nodes") {
			require.Contains(t, r.stdout, "not connected yet")
			require.NotContains(t, r.stdout, "multiplex:")
		}
	}
	// No command says that where all answer.
	_, nodes = masters(t, 3)
	for _, args := range []string{"nodes --observe=1s", "doctor --observe=1s", "status r", "init", "release --force --yes r"} {
		r := soon(t, append(strings.Fields(args), nodes)...)
		require.NotContains(t, r.stderr, "do not answer", args)
	}
}

// What the missing nodes lack decides whether -n goes on, and whether others
// wait for longer than --timeout.
func TestWhatWaitingIsFor_R31(t *testing.T) {
	connecting, down := multiplex.ErrConnecting, redlock.ErrNodeDown
	young, unopened := error(&redlock.QuarantineError{Left: 20, Why: "first seen"}), redlock.ErrUnopened
	for _, c := range []struct {
		missing   []error // of three nodes
		none      bool    // -n ends
		willCount bool
	}{
		{[]error{down}, false, true},
		{[]error{down, down}, true, false},
		{[]error{connecting, connecting, connecting}, false, false},
		{[]error{connecting, connecting, down}, false, false},
		{[]error{young, young, young}, true, true},
		{[]error{young, young}, true, true},
		{[]error{young, down}, true, true},
		{[]error{young, down, down}, true, false},
		{[]error{unopened, unopened, unopened}, false, false},
		{[]error{unopened, unopened, connecting}, false, false},
		{[]error{unopened, unopened, down}, true, false},
		{[]error{unopened, down}, false, false},
		{[]error{redlock.ErrDeployment, redlock.ErrDeployment, redlock.ErrDeployment}, true, false},
	} {
		undecided := &redlock.UndecidedError{Of: 3}
		for i, err := range c.missing {
			undecided.Nodes = append(undecided.Nodes, &redlock.NodeError{Node: i, Err: fmt.Errorf("here: %w", err)})
		}
		err := fmt.Errorf("ready: %w", undecided)
		assert.Equal(t, c.none, noQuorumLeft(err), c.missing)
		assert.Equal(t, c.willCount, willCount(err), c.missing)
	}
	// Half of an even number of nodes is no quorum.
	half := &redlock.UndecidedError{Of: 4, Nodes: []*redlock.NodeError{{Err: down}, {Err: down}}}
	assert.True(t, noQuorumLeft(half))
	assert.False(t, willCount(half))
	assert.False(t, noQuorumLeft(redlock.ErrClosed) || willCount(redlock.ErrClosed))
}

// A signal that arrives right after the grant, when the wait is over and the
// command has not started, releases the lock. Otherwise the lock would stay
// until its TTL ends, without a command under it.
func TestASignalRightAfterTheGrantGivesTheLockBack_R7(t *testing.T) {
	minute := time.Minute
	for name, w := range map[string]waiting{
		"without a wait":      {NoWait: true},
		"with a bounded wait": {Wait: &minute},
		"with an endless one": {},
	} {
		for _, held := range []bool{false, true} {
			if held && w.NoWait {
				continue // the lock is never granted
			}
			commands := map[string]func(*process, *deployment, *redlock.Client) error{
				"run": func(p *process, d *deployment, client *redlock.Client) error {
					_, _, err := (&runCommand{waiting: w, lifetime: lifetime{minute}, Resource: "job"}).hold(p, d, client)
					return err
				},
				"acquire": func(p *process, d *deployment, client *redlock.Client) error {
					_, _, err := (&acquireCommand{waiting: w, lifetime: lifetime{minute}, Resource: "job"}).take(p, d, client)
					return err
				},
			}
			for command, take := range commands {
				title := command + " " + name
				if held {
					title += ", where another client had the lock"
				}
				t.Run(title, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { signalAfterGrant(t, held, take) })
				})
			}
		}
	}
}

// signalAfterGrant sends a signal at the moment of the grant, and requires that
// no key is left.
func signalAfterGrant(t *testing.T, held bool, take func(*process, *deployment, *redlock.Client) error) {
	d := redlocktest.New(t, 3)
	if held {
		lock, err := d.Client(t, forgetful).Acquire(t.Context(), "job", time.Hour)
		require.NoError(t, err)
		time.AfterFunc(5*time.Second, func() { _ = lock.Release(context.Background()) })
	}
	p := &process{signals: make(chan os.Signal)}
	granted := 0
	client := d.Client(t, func(c *redlock.Config) {
		forgetful(c)
		c.Tracer = &redlock.Tracer{AttemptDone: func(_ context.Context, info redlock.CallInfo) {
			if info.Err == nil {
				granted++
				p.signals <- syscall.SIGTERM // returns when the wait has taken it
			}
		}}
	})
	err := take(p, &deployment{Timeout: time.Second}, client)
	require.Equal(t, signalCode(syscall.SIGTERM), exitCode(err), "%v", err)
	require.Equal(t, 1, granted)
	synctest.Wait()
	time.Sleep(time.Second) // far less than the TTL
	for _, node := range d.Nodes() {
		require.Empty(t, node.Keys(), "R7")
	}
}

// A signal that comes just before what was waited for is not lost.
func TestASignalThatComesWithTheResult(t *testing.T) {
	p := &process{signals: make(chan os.Signal)}
	text, err := unlessInterrupted(p, func() (string, error) {
		p.signals <- syscall.SIGTERM // returns when the wait has taken it
		return "token", nil
	})
	require.Equal(t, signalCode(syscall.SIGTERM), exitCode(err))
	require.Empty(t, text)
	text, err = unlessInterrupted(p, func() (string, error) { return "token", nil })
	require.NoError(t, err)
	require.Equal(t, "token", text)
}
