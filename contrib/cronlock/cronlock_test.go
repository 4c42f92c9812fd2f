package cronlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/contrib/cronlock"
	"github.com/redmux/redmux/contrib/internal/lost/losttest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// outcomes collects what Options.Done is called with.
type outcomes struct {
	mu  sync.Mutex
	all []error
}

func (o *outcomes) done(_ string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, err)
}

func (o *outcomes) last() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[len(o.all)-1]
}

func newLocker(t *testing.T, client *redlock.Client, o cronlock.Options) *cronlock.Locker {
	t.Helper()
	locker, err := cronlock.New(client, o)
	require.NoError(t, err)
	return locker
}

// Processes start a job at one instant, or a little later: one runs it. The
// next time it may be another.
func TestOneProcessRunsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 5)
		for _, n := range d.Nodes() {
			n.Delay(ms)
		}
		var o outcomes
		var runs []time.Time
		var jobs []*cronlock.Job
		for range 5 {
			locker := newLocker(t, d.Client(t), cronlock.Options{Done: o.done})
			jobs = append(jobs, locker.Job(t.Context(), "report", func(ctx context.Context) error {
				runs = append(runs, time.Now())
				_, held := redlock.FromContext(ctx)
				require.True(t, held)
				return ctx.Err()
			}))
		}
		for round := range 10 {
			var wg sync.WaitGroup
			for i, job := range jobs {
				wg.Go(func() {
					time.Sleep(time.Duration(i*round) * 10 * ms) // their clocks differ
					job.Run()
				})
			}
			wg.Wait()
			require.Len(t, runs, round+1)
			time.Sleep(time.Second)
			require.Empty(t, d.Node(0).Keys())
		}
		held := 0
		for _, err := range o.all {
			if errors.Is(err, redlock.ErrHeld) {
				held++
			} else {
				require.NoError(t, err)
			}
		}
		require.Equal(t, 40, held)
	})
}

// What is left on one node, while another is down, is no holder that a quorum
// names: the job asks again, and runs when the remains have gone.
func TestAJobOfWhichRemainsAreInTheWayRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		dead, client := d.Client(t), d.Client(t)
		lock, err := dead.TryAcquire(t.Context(), "cron:report", 1500*ms)
		require.NoError(t, err)
		synctest.Wait() // a quorum is enough for the lock: node 0 may come later
		d.Node(0).Refuse(true)
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, dead.Close(t.Context())) // the key stays on node 0
		d.Node(0).Refuse(false)
		d.Node(2).Stop()
		time.Sleep(1450 * ms) // until the client has node 0 again
		require.NotEmpty(t, d.Node(0).Keys())
		var o outcomes
		newLocker(t, client, cronlock.Options{Done: o.done, MinHold: 2 * time.Second}).
			Job(t.Context(), "report", func(context.Context) error { return nil }).Run()
		require.NoError(t, o.last())
	})
}

// A job of any name runs, also one whose lock would have the name of another
// key of the masters.
func TestJobsOfAnyName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		var o outcomes
		locker := newLocker(t, d.Client(t, func(c *redlock.Config) { c.Fenced = true }), cronlock.Options{Done: o.done})
		for i, name := range []string{"fence", "a:fence", "a:redlock:mark"} {
			locker.Job(t.Context(), name, func(context.Context) error { return nil }).Run()
			require.Len(t, o.all, i+1)
			require.NoError(t, o.last(), name)
		}
		_, err := cronlock.New(d.Client(t), cronlock.Options{Prefix: "app:redlock:"})
		require.ErrorContains(t, err, "cronlock: Prefix")
	})
}

// A job that is still running is not started again, here or elsewhere.
func TestALongJobIsLockedWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		var o outcomes
		work := func(ctx context.Context) error {
			time.Sleep(time.Hour)
			return ctx.Err()
		}
		first := newLocker(t, d.Client(t), cronlock.Options{Done: o.done, MinHold: -1}).Job(t.Context(), "long", work)
		second := newLocker(t, d.Client(t), cronlock.Options{Done: o.done, MinHold: -1}).Job(t.Context(), "long", work)
		go first.Run()
		time.Sleep(59 * time.Minute)
		second.Run()
		require.ErrorIs(t, o.last(), redlock.ErrHeld)
		first.Run()
		require.ErrorIs(t, o.last(), redlock.ErrHeld)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, o.last())
		require.Empty(t, d.Node(0).Keys())
	})
}

// The job's context ends before another process can run the job, and Done says
// that the lock was lost.
func TestAJobWhoseLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		var o outcomes
		var cause error
		job := newLocker(t, d.Client(t), cronlock.Options{TTL: time.Second, Done: o.done}).Job(t.Context(), "job", func(ctx context.Context) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		})
		begun := time.Now()
		go job.Run()
		synctest.Wait()
		for _, n := range d.Nodes() {
			n.Refuse(true)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.ErrorIs(t, cause, redlock.ErrLost)
		require.ErrorIs(t, o.last(), redlock.ErrLost)
		require.NotErrorIs(t, o.last(), context.Canceled, "what was lost was not cancelled")
		losttest.Require(t, o.last())
		require.Less(t, time.Since(begun), 3*time.Second)
		job.Run()
		require.ErrorIs(t, o.last(), redlock.ErrNoQuorum, "this run is lost")
	})
}

// The context of Job ends those of its runs; the locks are released all the
// same, and later runs are left out.
func TestJobsAreStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		var o outcomes
		type key struct{}
		stopped := errors.New("shut down")
		ctx, stop := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
		own := errors.New("half done")
		job := newLocker(t, d.Client(t), cronlock.Options{MinHold: -1, Done: o.done}).Job(ctx, "job", func(ctx context.Context) error {
			require.Equal(t, "value", ctx.Value(key{}))
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), stopped)
			return own
		})
		go job.Run()
		time.Sleep(time.Hour)
		for _, n := range d.Nodes() {
			n.Delay(40 * ms) // longer than the end of ctx goes unnoticed
		}
		stop(stopped)
		time.Sleep(80 * ms)
		require.ErrorIs(t, o.last(), own)
		require.NotErrorIs(t, o.last(), redlock.ErrLost)
		require.NotErrorIs(t, o.last(), context.Canceled, "the release waits for the nodes all the same")
		require.Empty(t, d.Node(0).Keys())
		job.Run()
		require.ErrorIs(t, o.last(), stopped)
	})
}

// followed counts the functions that wait for its end.
type followed struct {
	context.Context
	waiting *atomic.Int32
}

// Value hides which context of the library this is, which would be followed
// without AfterFunc.
func (f followed) Value(any) any { return nil }

// AfterFunc is what context.AfterFunc calls.
func (f followed) AfterFunc(then func()) (stop func() bool) {
	f.waiting.Add(1)
	off := context.AfterFunc(f.Context, then)
	return func() bool {
		f.waiting.Add(-1)
		return off()
	}
}

// The context of Job lives as long as the process, so a run must leave nothing
// with it.
func TestARunLeavesNothingWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var waiting, most atomic.Int32
		client := redlocktest.New(t, 3).Client(t)
		newLocker(t, client, cronlock.Options{}).Job(followed{ctx, &waiting}, "job", func(context.Context) error {
			most.Store(waiting.Load())
			return nil
		}).Run()
		require.Positive(t, most.Load())
		require.Zero(t, waiting.Load())
	})
}

// cron recovers the panic of a job, if it is told to. The lock must be free.
func TestAJobThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		job := newLocker(t, d.Client(t), cronlock.Options{MinHold: -1}).Job(t.Context(), "job", func(context.Context) error { panic("job") })
		require.PanicsWithValue(t, "job", job.Run)
		synctest.Wait()
		require.Empty(t, d.Node(0).Keys())
	})
}

// logged returns what is logged by slog.Default during the test.
func logged(t *testing.T) *bytes.Buffer {
	var log bytes.Buffer
	usual := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(usual) })
	return &log
}

// Without Done, what went wrong is logged, and what is ordinary is not.
func TestLogged(t *testing.T) {
	log := logged(t)
	synctest.Test(t, func(t *testing.T) {
		client := redlocktest.New(t, 1).Client(t, func(c *redlock.Config) { c.Logger = slog.New(slog.DiscardHandler) })
		locker := newLocker(t, client, cronlock.Options{MinHold: time.Second})
		var err error
		ctx, cancel := context.WithCancel(t.Context())
		job := locker.Job(ctx, "job", func(context.Context) error { return err })
		job.Run()
		job.Run() // held
		time.Sleep(2 * time.Second)
		require.Empty(t, log.String())
		err = errors.New("no paper")
		job.Run()
		require.Contains(t, log.String(), "no paper")
		require.Contains(t, log.String(), "job=job")
		log.Reset()
		cancel()
		job.Run()
		require.Empty(t, log.String())
	})
}

// A run that waits for its lock when cron is stopped is not started, and that
// is no failure.
func TestStoppedWhileItLocks(t *testing.T) {
	log := logged(t)
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		client := d.Client(t, func(c *redlock.Config) { c.Logger = slog.New(slog.DiscardHandler) })
		require.NoError(t, client.Ready(t.Context()))
		for _, n := range d.Nodes() {
			n.Delay(40 * ms)
		}
		for at := range 45 {
			ctx, cancel := context.WithCancel(t.Context())
			ran := false
			job := newLocker(t, client, cronlock.Options{MinHold: -1}).Job(ctx, "job", func(context.Context) error {
				ran = true
				return nil
			})
			time.AfterFunc(time.Duration(1+at)*ms, cancel)
			job.Run()
			if at < 39 {
				require.False(t, ran)
			}
			require.Empty(t, log.String(), "%d ms", at)
			time.Sleep(time.Second)
			require.Empty(t, d.Node(0).Keys())
		}
	})
}

// However short MinHold is, a job that runs elsewhere is left out.
func TestTheLeastMinHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		var o outcomes
		work := func(context.Context) error {
			time.Sleep(time.Second)
			return nil
		}
		job := newLocker(t, d.Client(t), cronlock.Options{MinHold: 1, Done: o.done}).Job(t.Context(), "job", work)
		var wg sync.WaitGroup
		wg.Go(job.Run)
		time.Sleep(100 * ms)
		job.Run()
		require.ErrorIs(t, o.last(), redlock.ErrHeld)
		wg.Wait()
		require.NoError(t, o.last())
	})
}

func TestOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 1)
		client := d.Client(t)
		for says, o := range map[string]cronlock.Options{
			"Prefix has 954 bytes, more than 953": {Prefix: strings.Repeat("p", 954)}, "TTL is negative: -1ns": {TTL: -1},
			"MinHold is 1m0s, more than the TTL, which is 1s": {TTL: time.Second, MinHold: time.Minute},
		} {
			_, err := cronlock.New(client, o)
			require.ErrorContains(t, err, "cronlock: ")
			require.ErrorContains(t, err, says)
		}
		for prefix, want := range map[string]string{"": "cron:job", "jobs/": "jobs/job"} {
			ran := false
			newLocker(t, client, cronlock.Options{Prefix: prefix, MinHold: -1}).Job(t.Context(), "job", func(context.Context) error {
				ran = true
				require.Equal(t, []string{want}, d.Node(0).Keys())
				return nil
			}).Run()
			require.True(t, ran)
		}
	})
}
