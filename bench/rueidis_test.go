package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// testTTL is so long that a busy machine ends no lock and costs no vote: the
// vote timeout is a tenth of it.
const testTTL = time.Minute

// patience is how long a test waits for what must happen. It is shorter than
// the TTL, so that a key that expired is not taken for one that was released.
const patience = testTTL / 2

// cluster is a set of servers that a test may stop and inspect.
type cluster []*redistest.Server

func startCluster(t testing.TB, n int, opts redistest.Options) cluster {
	t.Helper()
	return redistest.Servers(t, n, func(o *redistest.Options) { *o = opts })
}

// What holds a password or a token prints neither.
func TestNoExportedTypeShowsASecret_R27(t *testing.T) {
	const password = "hunter2!hunter2!"
	servers := startCluster(t, 3, redistest.Options{Password: password})
	config := RueidisConfig{Nodes: servers.urls(), Password: password}
	r, err := OpenRueidis(config)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close(context.Background())) }()
	lease, err := r.TryAcquire(t.Context(), "r", testTTL)
	require.NoError(t, err)
	require.Equal(t, "redis", r.Nodes(t.Context())[0].Product)
	redistest.Specimen{Value: config, Open: true}.PrintsNone(t, password)
	redistest.Specimen{Value: r, Open: true}.ShowsNone(t, password, r.tokens.rest[:tokenSize])
	redistest.Specimen{Value: lease, Open: true}.ShowsNone(t, lease.Token().Reveal())
}

func (c cluster) urls() (urls []string) {
	for _, s := range c {
		urls = append(urls, s.URL())
	}
	return urls
}

// keys counts the keys on all servers.
func (c cluster) keys(t testing.TB) (n int64) {
	t.Helper()
	for _, s := range c {
		size, err := s.Do("DBSIZE")
		require.NoError(t, err)
		n += size.(int64)
	}
	return n
}

// requireEmpty waits until no key is left: detached releases arrive soon.
func (c cluster) requireEmpty(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { return c.keys(t) == 0 }, patience, 5*time.Millisecond)
}

func openVariant(t testing.TB, c cluster, name string, change ...func(*RueidisConfig)) *Rueidis {
	t.Helper()
	cfg, err := RueidisConfig{Nodes: c.urls()}.Variant(name)
	require.NoError(t, err)
	for _, f := range change {
		f(&cfg)
	}
	l, err := OpenRueidis(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		l.Close(ctx)
	})
	return l
}

func TestRueidisExcludes(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		c := startCluster(t, n, redistest.Options{})
		for _, name := range Variants {
			t.Run(fmt.Sprintf("%s/nodes=%d", name, n), func(t *testing.T) {
				first, second := openVariant(t, c, name), openVariant(t, c, name)
				ctx := t.Context()
				start := time.Now()
				lease, err := first.TryAcquire(ctx, "r", testTTL)
				require.NoError(t, err)
				left := time.Until(lease.Until())
				took := time.Since(start)
				require.Less(t, left, testTTL-testTTL/100-driftFloor)
				require.GreaterOrEqual(t, left, testTTL-testTTL/100-driftFloor-took-time.Millisecond)

				_, err = second.TryAcquire(ctx, "r", testTTL)
				require.ErrorIs(t, err, redlock.ErrHeld)
				require.NoError(t, lease.Release(ctx))
				require.ErrorIs(t, lease.Release(ctx), redlock.ErrNotHeld, "a second release is harmless")

				lease, err = second.Acquire(ctx, "r", testTTL)
				require.NoError(t, err)
				require.NoError(t, lease.Release(ctx))
				c.requireEmpty(t)
			})
		}
	}
}

func TestRueidisReleasesOnlyItsOwn(t *testing.T) {
	c := startCluster(t, 3, redistest.Options{})
	l := openVariant(t, c, "rueidis-all")
	lease, err := l.TryAcquire(t.Context(), "r", testTTL)
	require.NoError(t, err)
	for _, s := range c[:2] {
		got, err := s.Do("GET", "r")
		require.NoError(t, err)
		token := lease.Token()
		require.Equal(t, string(token[:]), got)
		_, err = s.Do("SET", "r", "another's")
		require.NoError(t, err)
	}
	require.ErrorIs(t, lease.Release(t.Context()), redlock.ErrNotHeld)
	require.EqualValues(t, 2, c.keys(t), "another's keys stay, ours is gone")
}

func TestRueidisReleaseSurvivesLostScripts(t *testing.T) {
	c := startCluster(t, 3, redistest.Options{})
	l := openVariant(t, c, "rueidis")
	lease, err := l.TryAcquire(t.Context(), "r", testTTL)
	require.NoError(t, err)
	for _, s := range c {
		_, err := s.Do("SCRIPT", "FLUSH")
		require.NoError(t, err)
	}
	require.NoError(t, lease.Release(t.Context()))
	c.requireEmpty(t)
}

// R5 and R8: stopped nodes do not delay the quorum. When they continue, they
// execute each SET before its release, whatever connections the two are on.
func TestRueidisReleaseNeverOvertakesItsSET(t *testing.T) {
	c := startCluster(t, 5, redistest.Options{})
	l := openVariant(t, c, "rueidis")
	for _, s := range c[3:] {
		require.NoError(t, s.Stop())
	}
	var work sync.WaitGroup
	for i := range 200 {
		work.Go(func() {
			lease, err := l.TryAcquire(t.Context(), fmt.Sprint("r", i), testTTL)
			if err == nil {
				err = lease.Release(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	for _, s := range c[3:] {
		require.NoError(t, s.Continue())
	}
	closing, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, l.Close(closing), "Close waits for what is on its way")
	require.Zero(t, c.keys(t))
}

// R7: a cancelled attempt returns at once and leaves nothing behind.
func TestRueidisCancelled(t *testing.T) {
	c := startCluster(t, 5, redistest.Options{})
	for _, name := range Variants {
		t.Run(name, func(t *testing.T) {
			l := openVariant(t, c, name, func(cfg *RueidisConfig) { cfg.NodeTimeout = 2 * patience })
			for _, s := range c[2:] {
				require.NoError(t, s.Stop())
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := l.Acquire(ctx, "r", testTTL)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, time.Since(start), 5*time.Second, "it waited for the votes, which rueidis gives up after ten")
			for _, s := range c[2:] {
				require.NoError(t, s.Continue())
			}
			c.requireEmpty(t)
		})
	}
}

func TestRueidisWithoutQuorum(t *testing.T) {
	c := startCluster(t, 3, redistest.Options{})
	l := openVariant(t, c, "rueidis", func(cfg *RueidisConfig) { cfg.NodeTimeout = 2 * time.Second })
	require.NoError(t, c[0].Kill())
	lease, err := l.TryAcquire(t.Context(), "one down", testTTL)
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))

	require.NoError(t, c[1].Stop())
	_, err = l.TryAcquire(t.Context(), "two down", testTTL)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorIs(t, err, errVoteTimeout, "the stopped node's cause")
	require.Len(t, err.(*RueidisError).Causes, 2)
	require.NoError(t, c[1].Continue())
	cluster(c[1:]).requireEmpty(t)
}

// Both sides of a comparison read a URL the same way, TLS included.
func TestRueidisReadsURLsAsRedlockDoes(t *testing.T) {
	c := startCluster(t, 1, redistest.Options{TLS: true, Unix: true})
	for _, raw := range []string{
		c[0].URL() + "/2?protocol=2&client_name=bench&dial_timeout=5s&tls_ca_file=" + c[0].CAFile(),
		c[0].UnixURL() + "?db=2&client_name=bench",
	} {
		o := optionsOf(t, raw)
		require.Equal(t, 2, o.SelectDB)
		require.Equal(t, "bench", o.ClientName)
		theirs, err := OpenRueidis(RueidisConfig{Nodes: []string{raw}, NodeTimeout: patience})
		require.NoError(t, err)
		defer theirs.Close(t.Context())
		config := redlock.Config{Nodes: redlock.Nodes(raw), NodeTimeout: patience, MaxTTL: testTTL}
		_, err = admin.Init(t.Context(), config)
		require.NoError(t, err)
		ours, err := redlock.New(t.Context(), config)
		require.NoError(t, err)
		defer ours.Close(t.Context())
		require.NoError(t, ours.Ready(t.Context()))

		lease, err := theirs.TryAcquire(t.Context(), "r", testTTL)
		require.NoError(t, err)
		_, err = ours.TryAcquire(t.Context(), "r", testTTL)
		require.ErrorIs(t, err, redlock.ErrHeld, "they are in one database")
		require.NoError(t, lease.Release(t.Context()))
	}
	require.Equal(t, []string{"h:6379"}, optionsOf(t, "valkey://h/").InitAddress)
}

func optionsOf(t *testing.T, url string) rueidis.ClientOption {
	t.Helper()
	var cfg RueidisConfig
	e, err := cfg.endpoint(url)
	require.NoError(t, err)
	return cfg.options(e)
}

// R27: an error about a URL does not quote the URL.
func TestRueidisURLErrors(t *testing.T) {
	for _, raw := range []string{"", "localhost:6379", "http://u:s3cret@h", "redis://u:s3cret@h:x%zz", "redis://u:s3cret@h/db"} {
		_, err := OpenRueidis(RueidisConfig{Nodes: []string{raw}})
		require.Error(t, err, raw)
		require.NotContains(t, err.Error(), "s3cret")
	}
	_, err := OpenRueidis(RueidisConfig{})
	require.Error(t, err)
	_, err = RueidisConfig{}.Variant("rueidis-fast")
	require.Error(t, err)
}

// The baseline must not lose for lack of care: a pair allocates no more than
// the token and rueidis need.
func TestRueidisAllocates(t *testing.T) {
	if redistest.Raceful {
		t.Skip("pools forget under the race detector")
	}
	c := startCluster(t, 3, redistest.Options{})
	l := openVariant(t, c, "rueidis-all")
	pair := func() {
		lease, err := l.TryAcquire(t.Context(), "r", testTTL)
		if err == nil {
			err = lease.Release(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		pair()
	}
	// The best of several runs: rueidis allocates more when it has to wait.
	best := testing.AllocsPerRun(300, pair)
	for try := 0; try < 10 && best > 2; try++ {
		best = min(best, testing.AllocsPerRun(300, pair))
	}
	require.LessOrEqual(t, best, 2.0)
}

// R4: a quorum that comes too late does not count.
func TestRueidisExpired(t *testing.T) {
	c := startCluster(t, 1, redistest.Options{})
	l := openVariant(t, c, "rueidis", func(cfg *RueidisConfig) { cfg.NodeTimeout = patience })
	_, err := l.TryAcquire(t.Context(), "r", 2*time.Millisecond) // less than the drift
	require.ErrorIs(t, err, redlock.ErrExpired)
}
