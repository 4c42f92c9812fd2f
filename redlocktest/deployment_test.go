package redlocktest_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// patience is how long a real machine may take for something that usually takes
// milliseconds.
const patience = 30 * time.Second

// patient is for clients of tests that wait for answers: a busy machine may
// take longer to answer than the default vote timeout.
func patient(c *redlock.Config) { c.NodeTimeout = patience }

// everywhere runs a test on nodes in memory in real time, in simulated time,
// and on real servers.
func everywhere(t *testing.T, nodes int, test func(t *testing.T, d *redlocktest.Deployment)) {
	t.Run("in memory", func(t *testing.T) {
		redistest.NoLeaks(t)
		test(t, redlocktest.New(t, nodes, anHour))
	})
	t.Run("simulated", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, redlocktest.New(t, nodes, anHour)) })
	})
	t.Run("real", func(t *testing.T) {
		redistest.Require(t)
		redistest.NoLeaks(t)
		test(t, redlocktest.New(t, nodes, anHour, redlocktest.Real()))
	})
}

// anHour is longer than the TTLs of these tests.
var anHour = redlocktest.MaxTTL(time.Hour)

func TestHoldsWithAllTheyCanDo(t *testing.T) {
	everywhere(t, 3, func(t *testing.T, d *redlocktest.Deployment) {
		ctx := t.Context()
		c := d.Client(t, patient, func(c *redlock.Config) { c.Prefix = "lock:" })
		require.NoError(t, c.Ready(ctx))
		hold, err := c.Hold(ctx, "r", redlock.HoldOptions{TTL: 6 * time.Second, Heal: true, MinHold: 500 * ms})
		require.NoError(t, err)
		awaitKeys(t, d.Nodes(), "lock:r")

		d.Node(0).RestartEmpty()
		// The first renewal after its return heals the key.
		await(t, func() bool { return slices.Contains(d.Node(0).Keys(), "lock:r") }, "the key was not set again")
		require.NoError(t, hold.Err())
		require.NoError(t, hold.Release(ctx))
		await(t, func() bool { return !slices.Contains(d.Node(1).Keys(), "lock:r") }, "MinHold has no end")
	})
}

func TestAMinorityThatStops(t *testing.T) {
	everywhere(t, 5, func(t *testing.T, d *redlocktest.Deployment) {
		c := d.Client(t, patient)
		d.Node(0).Stop()
		d.Node(0).Stop() // harmless
		d.Node(4).Stop()
		require.Empty(t, d.Node(0).Keys())
		lock, err := c.Acquire(t.Context(), "r", time.Minute)
		require.NoError(t, err)

		d.Node(0).Start()
		d.Node(0).Start()
		d.Node(4).Start()
		awaitState(t, c, 0, "up")
		awaitState(t, c, 4, "up")
		require.NotContains(t, d.Node(0).Keys(), "r", "it was away")
		require.NoError(t, lock.Release(t.Context()))
		awaitKeys(t, d.Nodes())
	})
}

// Clients count at once whatever their prefix, and also if nodes are missing.
func TestCountsAtOnce_R29(t *testing.T) {
	everywhereWith(t, nil, func(t *testing.T, d *redlocktest.Deployment) {
		for _, prefix := range []string{"", "lock:"} {
			soon(t, d.Client(t, patient, func(c *redlock.Config) { c.Prefix = prefix }))
		}
		d.Node(0).Stop()
		c := d.Client(t, patient)
		soon(t, c)
		lock, err := c.TryAcquire(t.Context(), "r2", 10*time.Second)
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// soon checks that a client counts long before a quarantine would be over, also
// on a busy machine.
func soon(t *testing.T, c *redlock.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), redlock.DefaultMaxTTL/2)
	defer cancel()
	require.NoError(t, c.Ready(ctx))
}

func TestPause(t *testing.T) {
	everywhere(t, 3, func(t *testing.T, d *redlocktest.Deployment) {
		c := d.Client(t)
		for _, n := range d.Nodes()[:2] {
			n.Pause()
			n.Pause()
		}
		_, err := c.TryAcquire(t.Context(), "r", time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		for _, n := range d.Nodes()[:2] {
			n.Continue()
			n.Continue()
		}
		require.NoError(t, c.Ready(t.Context()))
		lock, err := d.Client(t, patient).Acquire(t.Context(), "r", time.Minute)
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		awaitKeys(t, d.Nodes()) // each SET that it executed late was undone by the release behind it

		d.Node(0).Pause()
		d.Node(0).Stop() // kills the frozen process
		d.Node(0).Continue()
		d.Node(0).Start()
		awaitState(t, c, 0, "up")
	})
}

func TestRefuse(t *testing.T) {
	everywhere(t, 3, func(t *testing.T, d *redlocktest.Deployment) {
		c := d.Client(t, patient) // this client sheds no node; a shed node would not have the key
		_, err := c.Acquire(t.Context(), "r", time.Hour)
		require.NoError(t, err)
		awaitKeys(t, d.Nodes(), "r")
		d.Node(1).Refuse(true)
		awaitState(t, c, 1, "down")
		require.Equal(t, []string{"r"}, d.Node(1).Keys(), "the node keeps its keys")
		d.Node(1).Stop()
		d.Node(1).Start() // does not end the refusal
		await(t, func() bool { return c.Nodes()[1].Counts.DialFailures >= 3 }, "it was not dialed")
		require.NotEqual(t, redlock.NodeUp, c.Nodes()[1].State)

		d.Node(1).Stop()
		d.Node(1).Refuse(false) // does not start the node
		failures := c.Nodes()[1].Counts.DialFailures
		await(t, func() bool { return c.Nodes()[1].Counts.DialFailures > failures }, "it was not dialed")
		d.Node(1).Start()
		awaitState(t, c, 1, "up")
		require.Empty(t, d.Node(1).Keys())
	})
}

// A password is asked for, and shown by no URL and no exported type (R27).
func TestPasswordIsAskedForAndShownNowhere_R27(t *testing.T) {
	const password = "hunter2!hunter2!"
	everywhereWith(t, []redlocktest.Option{redlocktest.Password(password)}, func(t *testing.T, d *redlocktest.Deployment) {
		require.Equal(t, password, d.Config().Password)
		require.NotContains(t, strings.Join(d.URLs(), " "), password)
		require.NoError(t, d.Client(t).Ready(t.Context()))
		stranger := d.Client(t, func(c *redlock.Config) { c.Password = "" })
		_, err := stranger.TryAcquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		d.Node(0).RestartEmpty()
		require.Empty(t, d.Node(0).Keys())
		for _, v := range []any{d, d.Node(0), redlocktest.Password(password)} {
			redistest.Specimen{Value: v}.ShowsNone(t, password)
		}
	})
}

func everywhereWith(t *testing.T, options []redlocktest.Option, test func(t *testing.T, d *redlocktest.Deployment)) {
	t.Run("in memory", func(t *testing.T) { test(t, redlocktest.New(t, 3, options...)) })
	t.Run("real", func(t *testing.T) {
		redistest.Require(t)
		test(t, redlocktest.New(t, 3, append(options, redlocktest.RealOrSkip())...))
	})
}

func TestStartSaysWhatItCannot(t *testing.T) {
	for _, n := range []int{-1, 0, 17} {
		_, err := redlocktest.Start(n)
		require.ErrorContains(t, err, "1 to 16 nodes")
	}
	d, err := redlocktest.Start(16)
	require.NoError(t, err)
	require.Len(t, d.Nodes(), 16)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { assert.NoError(t, d.Close(), "a second Close is harmless, even at the same time") })
	}
	wg.Wait()

	t.Setenv("REDMUX_SERVER", "/nowhere/redis-server")
	_, err = redlocktest.Start(1, redlocktest.Real())
	require.Error(t, err)
	t.Setenv("REDMUX_SERVER", "")
	t.Setenv("REDMUX_SERVERS", "")
	t.Setenv("PATH", t.TempDir())
	_, err = redlocktest.Start(1, redlocktest.Real())
	require.ErrorIs(t, err, redlocktest.ErrNoServer)
}

// Without a server, Real fails a test and RealOrSkip skips it. The test sees
// this from outside, in a process of its own.
func TestWithoutAServer(t *testing.T) {
	if os.Getenv("REDLOCKTEST_WITHOUT") == "1" {
		t.Run("fails", func(t *testing.T) { redlocktest.New(t, 1, redlocktest.Real()) })
		t.Run("skips", func(t *testing.T) { redlocktest.New(t, 1, redlocktest.RealOrSkip()) })
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWithoutAServer$", "-test.v")
	cmd.Env = append(os.Environ(), "REDLOCKTEST_WITHOUT=1", "REDMUX_SERVER=", "REDMUX_SERVERS=", "PATH="+t.TempDir())
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	require.Contains(t, string(out), "--- FAIL: TestWithoutAServer/fails")
	require.Contains(t, string(out), "--- SKIP: TestWithoutAServer/skips")
	require.Contains(t, string(out), "no redis-server or valkey-server")
}

// A node's method reports what the node cannot do, since it returns no error.
func TestAPausedServerCannotBeAsked(t *testing.T) {
	redistest.Require(t)
	d, err := redlocktest.Start(1, redlocktest.Real())
	require.NoError(t, err)
	defer d.Close()
	d.Node(0).Pause()
	require.PanicsWithError(t, "redlocktest: cannot list the keys of the node at "+d.Node(0).URL()+
		": it is paused, and cannot answer", func() { d.Node(0).Keys() })
	d.Node(0).Continue()
	require.Empty(t, d.Node(0).Keys())
}

// Importing this package adds nothing to the imports of redlock except test
// helpers of this module, and what runs the scripts.
func TestTinyImportGraph(t *testing.T) {
	list := func(pkg string) map[string]bool {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg).Output()
		require.NoError(t, err)
		all := make(map[string]bool)
		for name := range strings.FieldsSeq(string(out)) {
			all[name] = true
		}
		return all
	}
	library := list("github.com/redmux/redmux/redlock")
	require.NotEmpty(t, library)
	for name := range list("github.com/redmux/redmux/redlocktest") {
		if !library[name] {
			require.Contains(t, []string{
				"github.com/redmux/redmux/redlocktest", "github.com/redmux/redmux/internal/redistest", "github.com/redmux/redmux/redlock/admin",
				"github.com/yuin/gopher-lua", "github.com/yuin/gopher-lua/ast", "github.com/yuin/gopher-lua/parse", "github.com/yuin/gopher-lua/pm",
			}, name)
		}
	}
}

// Keys shows whether a test has left a lock behind, of any kind.
func TestKeysOfEachKindOfLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		c := d.Client(t)
		for key, kind := range map[string]redlock.Locker{
			"fair": c.Fair("fair"), "permits:redlock:permits": c.Semaphore("permits", 1), "rw": c.RW("rw").Write(),
			"ro:redlock:readers": c.RW("ro").Read(),
		} {
			lock, err := kind.Acquire(t.Context(), 10*time.Second)
			require.NoError(t, err)
			synctest.Wait()
			require.Contains(t, d.Node(0).Keys(), key)
			require.NoError(t, lock.Release(t.Context()))
			synctest.Wait()
			require.Empty(t, d.Node(0).Keys(), key)
		}
	})
}

// awaitKeys waits until no node has keys other than the allowed ones.
func awaitKeys(t *testing.T, nodes []*redlocktest.Node, allowed ...string) {
	t.Helper()
	await(t, func() bool {
		for _, n := range nodes {
			keys := n.Keys()
			if len(allowed) > 0 && !slices.Contains(keys, allowed[0]) {
				return false
			}
			for _, key := range keys {
				if !slices.Contains(allowed, key) {
					return false
				}
			}
		}
		return true
	}, "the nodes do not have the keys %q", allowed)
}

func awaitState(t *testing.T, c *redlock.Client, node int, state string) {
	t.Helper()
	await(t, func() bool { return string(c.Nodes()[node].State) == state }, "node %d is not %s", node, state)
}

// await polls by itself: require.Eventually starts goroutines, which does not
// work in simulated time.
func await(t *testing.T, is func() bool, otherwise string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(ms) {
		if time.Now().After(deadline) {
			require.FailNow(t, "too long", append([]any{otherwise}, args...)...)
		}
	}
}

// A connection that is being established when a node leaves the network ends
// with the others.
func TestRefuseWhatIsJustComing(t *testing.T) {
	redistest.Require(t)
	n := redlocktest.New(t, 1, redlocktest.Real()).Node(0)
	for range 30 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(n.URL(), "redis://"))
		require.NoError(t, err)
		n.Refuse(true)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		_, err = conn.Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is still there")
		require.NoError(t, conn.Close())
		n.Refuse(false)
	}
}
