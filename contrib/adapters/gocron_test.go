package adapters

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/redmux/redmux/contrib/gocronlock"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/require"
)

// The adapters implement gocron's interfaces.
var (
	_ gocron.Locker  = (*gocronlock.Locker[gocron.Lock])(nil)
	_ gocron.Elector = (*gocronlock.Elector)(nil)
)

// patience is how long a busy machine may take for something that usually takes
// milliseconds.
const patience = 30 * time.Second

// patient makes a client wait that long for votes.
func patient(c *redlock.Config) { c.NodeTimeout = patience }

// candidate gives a client what an election needs.
func candidate(c *redlock.Config) { c.Fenced, c.Owner = true, "web-1" }

// Five schedulers start a job at the same time; one of them runs it.
func TestGocronRunsAJobOnce(t *testing.T) {
	redistest.NoLeaks(t)
	d := redlocktest.New(t, 5, redlocktest.MaxTTL(time.Hour))
	var runs, refused, other atomic.Int32
	var schedulers []gocron.Scheduler
	for range 5 {
		// The hold outlasts this test on any machine, so a late scheduler is
		// refused.
		client := d.Client(t, patient)
		require.NoError(t, client.Ready(t.Context()))
		locker, err := gocronlock.NewLocker[gocron.Lock](client, gocronlock.Options{TTL: time.Hour, MinHold: time.Hour})
		require.NoError(t, err)
		s := newScheduler(t, gocron.WithDistributedLocker(locker))
		_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
			gocron.NewTask(func() { runs.Add(1) }),
			gocron.WithName("report"),
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
				if errors.Is(err, redlock.ErrHeld) {
					refused.Add(1)
				} else {
					other.Add(1)
				}
			})))
		require.NoError(t, err)
		schedulers = append(schedulers, s)
	}
	for _, s := range schedulers {
		s.Start()
	}
	require.Eventually(t, func() bool { return runs.Load()+refused.Load()+other.Load() == 5 }, patience, time.Millisecond)
	require.EqualValues(t, 1, runs.Load())
	require.Zero(t, other.Load())
	shutdown(t, schedulers...)
}

// If a job is still running when its next run is due, no other scheduler starts
// it.
func TestGocronHoldsTheLockForTheWholeRun(t *testing.T) {
	redistest.NoLeaks(t)
	d := redlocktest.New(t, 3)
	var running, most, runs, refused atomic.Int32
	var schedulers []gocron.Scheduler
	for range 3 {
		locker, err := gocronlock.NewLocker[gocron.Lock](d.Client(t, patient), gocronlock.Options{MinHold: -1})
		require.NoError(t, err)
		s := newScheduler(t, gocron.WithDistributedLocker(locker))
		_, err = s.NewJob(gocron.DurationJob(5*time.Millisecond), gocron.NewTask(func() {
			now := running.Add(1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			time.Sleep(10 * time.Millisecond) // the work, which is longer than the interval
			running.Add(-1)
			runs.Add(1)
		}), gocron.WithName("work"), gocron.WithEventListeners(gocron.AfterLockError(func(uuid.UUID, string, error) { refused.Add(1) })))
		require.NoError(t, err)
		schedulers = append(schedulers, s)
	}
	for _, s := range schedulers {
		s.Start()
	}
	require.Eventually(t, func() bool { return runs.Load() >= 20 && refused.Load() >= 20 }, patience, time.Millisecond)
	shutdown(t, schedulers...)
	require.EqualValues(t, 1, most.Load(), "two ran at once")
	for _, n := range d.Nodes() {
		require.Eventually(t, func() bool { return len(n.Keys()) == 0 }, patience, time.Millisecond, "a lock was left")
	}
}

// Jobs run in the process that leads, and in the other one when the leader is
// gone.
func TestGocronFollowsTheLeader(t *testing.T) {
	redistest.NoLeaks(t)
	d := redlocktest.New(t, 5)
	var runs [2]atomic.Int32
	var electors []*gocronlock.Elector
	var schedulers []gocron.Scheduler
	for i := range 2 {
		elector, err := gocronlock.NewElector(t.Context(), d.Client(t, patient, candidate), "reports", gocronlock.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = elector.Close(context.Background()) })
		electors = append(electors, elector)
		s := newScheduler(t, gocron.WithDistributedElector(elector))
		_, err = s.NewJob(gocron.DurationJob(2*time.Millisecond), gocron.NewTask(func() { runs[i].Add(1) }))
		require.NoError(t, err)
		s.Start()
		schedulers = append(schedulers, s)
		if i == 0 { // a busy machine may elect it after NewElector has returned
			require.Eventually(t, func() bool { return runs[0].Load() > 0 }, patience, time.Millisecond)
		}
	}
	require.Eventually(t, func() bool { return runs[0].Load() > 20 }, patience, time.Millisecond)
	require.Zero(t, runs[1].Load(), "it does not lead")
	shutdown(t, schedulers[0])
	require.NoError(t, electors[0].Close(t.Context()))
	require.Eventually(t, func() bool { return runs[1].Load() > 20 }, patience, time.Millisecond)
	shutdown(t, schedulers[1])
}

// scheduler is shut down once: a second shutdown of gocron's may wait for its
// whole stop timeout.
type scheduler struct {
	gocron.Scheduler
	once sync.Once
}

func (s *scheduler) Shutdown() (err error) {
	s.once.Do(func() { err = s.Scheduler.Shutdown() })
	return err
}

func newScheduler(t *testing.T, options ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	inner, err := gocron.NewScheduler(append(options, gocron.WithStopTimeout(patience))...)
	require.NoError(t, err)
	s := &scheduler{Scheduler: inner}
	t.Cleanup(func() { _ = s.Shutdown() })
	return s
}

func shutdown(t *testing.T, all ...gocron.Scheduler) {
	t.Helper()
	for _, s := range all {
		require.NoError(t, s.Shutdown())
	}
}

// The adapters take a client like any other.
func Example_gocron() {
	client, err := redlock.Open(context.Background(), "redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	locker, err := gocronlock.NewLocker[gocron.Lock](client, gocronlock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer scheduler.Shutdown()
	scheduler.Start()
}
