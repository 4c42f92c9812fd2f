//go:build unix

package adapters

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redmux/redmux/contrib/cronlock"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"
)

var _ cron.Job = (*cronlock.Job)(nil)

// Five crons start a job at the same time; one of them runs it.
func TestCronRunsAJobOnce(t *testing.T) {
	redistest.NoLeaks(t)
	d := redlocktest.New(t, 5, redlocktest.MaxTTL(time.Hour))
	var runs, held, other atomic.Int32
	var crons []*cron.Cron
	for range 5 {
		// The hold outlasts this test on any machine, so a late cron is refused.
		client := d.Client(t, patient)
		require.NoError(t, client.Ready(t.Context()))
		locker, err := cronlock.New(client, cronlock.Options{
			TTL: time.Hour, MinHold: time.Hour,
			Done: func(_ string, err error) {
				switch {
				case errors.Is(err, redlock.ErrHeld):
					held.Add(1)
				case err != nil:
					other.Add(1)
				}
			},
		})
		require.NoError(t, err)
		c := cron.New()
		_, err = c.AddJob("@every 1s", cron.NewChain(cron.SkipIfStillRunning(cron.DiscardLogger)).Then(
			locker.Job(t.Context(), "report", func(ctx context.Context) error {
				runs.Add(1)
				return ctx.Err()
			})))
		require.NoError(t, err)
		crons = append(crons, c)
	}
	for _, c := range crons {
		c.Start()
	}
	require.Eventually(t, func() bool { return held.Load()+other.Load() >= 9 }, patience, time.Millisecond)
	for _, c := range crons {
		<-c.Stop().Done()
	}
	require.EqualValues(t, 1, runs.Load())
	require.Zero(t, other.Load())
}

// Of two processes that run the recipe one runs jobs. When it retires, the
// other does, and not before the last job of the first has returned.
func TestCronOfTheLeader(t *testing.T) {
	redistest.NoLeaks(t)
	d := redlocktest.New(t, 3)
	var running, runs [2]atomic.Int32
	var both atomic.Bool // jobs of both ran at a time
	var ends [2]context.CancelFunc
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 2 {
		client := d.Client(t, patient, candidate)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ends[i] = cancel
		wg.Go(func() {
			err := runCron(ctx, client, "@every 1s", func(ctx context.Context) {
				running[i].Add(1)
				if running[1-i].Load() > 0 {
					both.Store(true)
				}
				runs[i].Add(1)
				<-ctx.Done()                        // a job that lasts
				time.Sleep(1500 * time.Millisecond) // and takes some time to end
				running[i].Add(-1)
			})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		if i == 0 {
			require.Eventually(t, func() bool { return runs[0].Load() > 0 }, patience, time.Millisecond)
		}
	}
	require.Zero(t, runs[1].Load())
	ends[0]()
	require.Eventually(t, func() bool { return runs[1].Load() > 0 }, patience, time.Millisecond)
	require.False(t, both.Load(), "the second began while jobs of the first still ran")
	ends[1]()
	require.Error(t, runCron(t.Context(), d.Client(t, patient, candidate), "no time", nil), "a mistake ends it")
}

// asynqPlaces tells a process of this test binary that it is a scheduler, and
// where everything is: its name, the Redis of asynq, and the masters.
const asynqPlaces = "REDMUX_TEST_ASYNQ"

// Two processes run the recipe: one enqueues tasks. When it is told to end, and
// when it is killed, the other one does; the queue shows that they never took
// turns otherwise.
func TestAsynqSchedulerOfTheLeader(t *testing.T) {
	if text := os.Getenv(asynqPlaces); text != "" {
		fmt.Println(scheduleTasks(strings.Fields(text)))
		select {} // with its lock released, it must not go on
	}
	redistest.Require(t)
	d := redlocktest.New(t, 3, redlocktest.Real())
	server := redistest.Servers(t, 1, redistest.OverTCP)[0].TCPAddr()
	start := func(name string) *exec.Cmd {
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=300s")
		child.Env = append(os.Environ(), asynqPlaces+"="+strings.Join(append([]string{name, server}, d.URLs()...), " "))
		require.NoError(t, redistest.Spawn(child))
		t.Cleanup(func() {
			_ = child.Process.Kill()
			_ = child.Wait()
		})
		return child
	}
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: server})
	defer inspector.Close()
	// enqueued returns the name of the process that enqueued each task, in order.
	enqueued := func() (names []string) {
		tasks, err := inspector.ListPendingTasks("default", asynq.PageSize(1000))
		if errors.Is(err, asynq.ErrQueueNotFound) {
			return nil
		}
		require.NoError(t, err)
		for _, task := range tasks {
			names = append(names, string(task.Payload))
		}
		return names
	}
	// waitFor waits until the last of these processes has enqueued four tasks,
	// in which time others could do what they must not.
	waitFor := func(want ...string) {
		t.Helper()
		var names []string
		last := want[len(want)-1]
		require.Eventually(t, func() bool {
			names = enqueued()
			return len(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name != last })) >= 4
		}, 2*patience, 10*time.Millisecond)
		require.Equal(t, want, slices.Compact(names))
	}
	first := start("a")
	require.Eventually(t, func() bool { return len(enqueued()) > 0 }, 2*patience, 10*time.Millisecond)
	second := start("b")
	waitFor("a")
	require.NoError(t, first.Process.Signal(os.Interrupt)) // it retires, and does not exit
	waitFor("a", "b")
	start("c")
	require.NoError(t, second.Process.Kill())
	waitFor("a", "b", "c")
}

// scheduleTasks is the child: it enqueues its name.
func scheduleTasks(places []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, err := redlock.New(ctx, redlock.Config{
		Nodes: redlock.Nodes(places[2:]...), NodeTimeout: patience, Fenced: true, Owner: places[0],
	})
	if err != nil {
		return err
	}
	defer client.Close(context.Background())
	return runAsynq(ctx, client, asynq.RedisClientOpt{Addr: places[1]}, "@every 1s", asynq.NewTask("report", []byte(places[0])))
}
