package adapters

import (
	"context"
	"crypto/x509"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/redmux/redmux/contrib/certmagiclock"
	"github.com/redmux/redmux/contrib/gocronlock"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
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

// Three schedulers have one job. Whichever is first runs it; and if it is still
// running when its next run is due, no other scheduler starts it. What gocron is
// told is that the lock is held.
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
		}), gocron.WithName("work"), gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
			if errors.Is(err, redlock.ErrHeld) {
				refused.Add(1)
			}
		})))
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

// storage is a storage with our locks, as the documentation of certmagiclock
// shows it, with all that the Locker can do.
type storage struct {
	certmagic.Storage
	locks *certmagiclock.Locker
}

func (s storage) Lock(ctx context.Context, name string) error   { return s.locks.Lock(ctx, name) }
func (s storage) Unlock(ctx context.Context, name string) error { return s.locks.Unlock(ctx, name) }
func (s storage) TryLock(ctx context.Context, name string) (bool, error) {
	return s.locks.TryLock(ctx, name)
}
func (s storage) RenewLockLease(ctx context.Context, name string, d time.Duration) error {
	return s.locks.RenewLockLease(ctx, name, d)
}

var (
	_ certmagic.Storage          = storage{}
	_ certmagic.Locker           = (*certmagiclock.Locker)(nil)
	_ certmagic.TryLocker        = (*certmagiclock.Locker)(nil)
	_ certmagic.LockLeaseRenewer = (*certmagiclock.Locker)(nil)
)

// issuer is a certificate authority that counts its orders. While the locks
// hold, it never has two at once.
type issuer struct {
	running, most, issued atomic.Int32
}

func (i *issuer) IssuerKey() string { return "test" }

func (i *issuer) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	now := i.running.Add(1)
	defer i.running.Add(-1)
	for m := i.most.Load(); now > m && !i.most.CompareAndSwap(m, now); m = i.most.Load() {
	}
	time.Sleep(20 * time.Millisecond) // an authority takes some time
	i.issued.Add(1)
	chain, err := redistest.Issue(csr)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: chain}, nil
}

func newConfig(t *testing.T, s certmagic.Storage, authority certmagic.Issuer) (config *certmagic.Config) {
	t.Helper()
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		Logger:           zap.NewNop(),
	})
	t.Cleanup(cache.Stop)
	return certmagic.New(cache, certmagic.Config{
		Storage: s, Issuers: []certmagic.Issuer{authority}, Logger: zap.NewNop(),
		OCSP: certmagic.OCSPConfig{DisableStapling: true},
	})
}

// Five processes of a cluster want a certificate for one name at the same time:
// one asks the authority, the others wait and find the certificate in the
// storage.
func TestCertmagicObtainsACertificateOnce(t *testing.T) {
	redistest.NoLeaks(t)
	d := redlocktest.New(t, 3)
	files := &certmagic.FileStorage{Path: t.TempDir()}
	var authority issuer
	var wg sync.WaitGroup
	errs := make([]error, 5)
	for i := range errs {
		locks, err := certmagiclock.New(d.Client(t, patient), certmagiclock.Options{})
		require.NoError(t, err)
		config := newConfig(t, storage{files, locks}, &authority)
		wg.Go(func() { errs[i] = config.ObtainCertSync(t.Context(), "example.com") })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, authority.issued.Load())
	require.EqualValues(t, 1, authority.most.Load())
	for _, n := range d.Nodes() {
		require.Eventually(t, func() bool { return len(n.Keys()) == 0 }, patience, time.Millisecond, "a lock was left")
	}
}

// losing is a storage whose first lock is lost right after it was granted. It
// counts the calls of certmagic to RenewLockLease.
type losing struct {
	storage
	lose           func()
	asked, refused *atomic.Int32
}

func (s losing) Lock(ctx context.Context, name string) error {
	err := s.storage.Lock(ctx, name)
	s.lose()
	return err
}

func (s losing) RenewLockLease(ctx context.Context, name string, d time.Duration) error {
	s.asked.Add(1)
	err := s.storage.RenewLockLease(ctx, name, d)
	if err != nil {
		s.refused.Add(1)
	}
	return err
}

// A lock that is lost before certmagic begins, or between two of its attempts,
// costs no certificate. certmagic asks for its lease first; with a lost lock it
// would do so in vain for thirty days. The lock must be granted again at the
// first call, because certmagic pauses for a minute after an error.
func TestCertmagicGoesOnAfterALoss(t *testing.T) {
	redistest.NoLeaks(t)
	d := redlocktest.New(t, 3)
	lost := make(chan struct{}, 1)
	client := d.Client(t, patient, func(c *redlock.Config) {
		c.Forgetful = true // the nodes are to grant the next lock at once
		c.Tracer = &redlock.Tracer{HoldLost: func(redlock.HoldInfo) { lost <- struct{}{} }}
	})
	locks, err := certmagiclock.New(client, certmagiclock.Options{TTL: 10 * time.Second})
	require.NoError(t, err)
	lose := sync.OnceFunc(func() {
		for _, n := range d.Nodes() {
			n.RestartEmpty()
		}
		<-lost
		assert.NoError(t, client.Ready(t.Context()))
	})
	var authority issuer
	var asked, refused atomic.Int32
	files := &certmagic.FileStorage{Path: t.TempDir()}
	config := newConfig(t, losing{storage{files, locks}, lose, &asked, &refused}, &authority)
	// Longer than the assertion below waits, so that the assertion fails and
	// not the context.
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	require.NoError(t, config.ObtainCertAsync(ctx, "example.com"))
	require.EqualValues(t, 1, authority.issued.Load())
	require.EqualValues(t, 1, asked.Load(), "it asks before each attempt, of which there was one")
	require.Zero(t, refused.Load())
}
