package peers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/bench/compare/peers"
	"github.com/redmux/redmux/cmd/loadgen/load"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// Figures are worth comparing only of locks: what one peer holds is held for
// every other, and free afterwards. This also shows that all peers use the same
// keys.
func TestPeersExcludeOneAnother(t *testing.T) {
	for _, n := range []int{1, 3} {
		plain := redistest.Servers(t, n, redistest.OverTCP, redistest.OverUnix)
		secret := redistest.Servers(t, n, redistest.OverTLS)
		for _, network := range []string{"tcp", "unix", "tls"} {
			servers := plain
			if network == "tls" {
				servers = secret
			}
			clients := openAll(t, urlsOf(servers, network))
			for holder, c := range clients {
				for other, d := range clients {
					t.Run(network+"/"+holder+" against "+other, func(t *testing.T) { requireExclusion(t, holder, c, other, d) })
				}
			}
		}
	}
	// Keys that are left behind are not looked for: a peer that returns at the
	// quorum without ordering its commands may leave one on another master.
}

func urlsOf(servers []*redistest.Server, network string) (all []string) {
	for _, s := range servers {
		switch network {
		case "tls":
			all = append(all, s.URL()+"?tls_ca_file="+s.CAFile())
		case "unix":
			all = append(all, s.UnixURL())
		default:
			all = append(all, s.URL())
		}
	}
	return all
}

// voteTimeout is so long that a busy machine costs no votes.
const voteTimeout = 5 * time.Second

// openAll opens all peers that can work on so many masters, ours and the
// baseline.
func openAll(t *testing.T, urls []string) map[string]peers.Client {
	config := redlock.Config{Nodes: redlock.Nodes(urls...), NodeTimeout: voteTimeout, MaxTTL: ttl}
	_, err := admin.Init(t.Context(), config)
	require.NoError(t, err)
	ours, err := redlock.New(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, ours.Ready(t.Context()))
	baseline, err := bench.OpenRueidis(bench.RueidisConfig{Nodes: urls, NodeTimeout: voteTimeout})
	require.NoError(t, err)
	all := map[string]peers.Client{"redlock": peers.ClientOf[redlock.Lock](ours), "rueidis": peers.ClientOf[bench.RueidisLease](baseline)}
	for _, p := range peers.All {
		if p.MostNodes == 0 || len(urls) <= p.MostNodes {
			all[p.Name], err = p.Client(load.Settings{URLs: urls, NodeTimeout: voteTimeout})
			require.NoError(t, err, p.Name)
		}
	}
	for _, c := range all {
		t.Cleanup(func() { _ = c.Close(context.Background()) })
	}
	return all
}

// late reports whether votes came too late for a peer, as may happen on a busy
// machine: not all can be told to wait for longer. Ours must not return such an
// error (R12).
func late(peer string, err error) bool {
	return peer != "redlock" && (errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, context.DeadlineExceeded))
}

// tryLate tries again while votes come too late for a peer, until the time is
// over.
func tryLate(t *testing.T, peer string, most time.Duration, try func() error) error {
	t.Helper()
	for start := time.Now(); ; {
		err := try()
		if !late(peer, err) || time.Since(start) > most {
			return err
		}
		t.Logf("%s again: %v", peer, err)
	}
}

// pair acquires and releases, and calls held in between.
func pair(ctx context.Context, c peers.Client, resource string, held func(bench.Lease)) error {
	lease, err := c.TryAcquire(ctx, resource, ttl)
	if err != nil {
		return err
	}
	if held != nil {
		held(lease)
	}
	return lease.Release(ctx)
}

func requireExclusion(t *testing.T, holderName string, holder peers.Client, otherName string, other peers.Client) {
	ctx := context.Background()
	resource, entered, tries := "", false, 0
	err := tryLate(t, holderName, patience/2, func() error {
		tries++
		resource, entered = fmt.Sprint(t.Name(), " ", tries), false
		began := time.Now()
		return pair(ctx, holder, resource, func(lease bench.Lease) {
			entered = true
			assert.NotZero(t, lease.Token())
			assert.WithinRange(t, lease.Until(), began.Add(ttl/2), time.Now().Add(ttl))
			err := tryLate(t, otherName, patience/2, func() error { // less than the TTL
				return pair(ctx, other, resource, func(bench.Lease) { t.Error("two hold one resource") })
			})
			require.ErrorIs(t, err, redlock.ErrHeld)
		})
	})
	require.NoError(t, err)
	require.True(t, entered, "nothing was held")
	// Peers that return at the quorum undo their failed attempt in the
	// background.
	for _, c := range []peers.Client{other, holder} {
		assert.Eventually(t, func() bool { return pair(ctx, c, resource, nil) == nil }, ttl/2, ttl/2000)
	}
}

// A lock is waited for until its holder releases it.
func TestPeersWait(t *testing.T) {
	servers := redistest.Servers(t, 1, redistest.OverTCP)
	for name, c := range openAll(t, urlsOf(servers, "tcp")) {
		t.Run(name, func(t *testing.T) {
			held, err := c.TryAcquire(t.Context(), name, ttl)
			require.NoError(t, err)
			granted := make(chan error, 1)
			go func() {
				lease, err := c.Acquire(t.Context(), name, ttl)
				if err == nil {
					err = lease.Release(t.Context())
				}
				granted <- err
			}()
			select {
			case err := <-granted:
				t.Fatalf("it did not wait: %v", err)
			case <-time.After(10 * time.Millisecond):
			}
			short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err = c.Acquire(short, name, ttl)
			require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlock.ErrHeld), "%v", err)
			require.NotErrorIs(t, err, redlock.ErrNoQuorum)
			require.NoError(t, held.Release(t.Context()))
			require.NoError(t, <-granted)
		})
	}
}

// A peer that loses its lock must not count the pair.
func TestALostLockIsNoPair(t *testing.T) {
	servers := redistest.Servers(t, 1, redistest.OverTCP)
	for name, c := range openAll(t, urlsOf(servers, "tcp")) {
		t.Run(name, func(t *testing.T) {
			tries := 0
			err := tryLate(t, name, patience/2, func() error {
				tries++
				resource := fmt.Sprint("lost ", name, tries)
				return pair(t.Context(), c, resource, func(bench.Lease) {
					_, err := servers[0].Do("DEL", resource)
					require.NoError(t, err)
				})
			})
			require.ErrorIs(t, err, redlock.ErrNotHeld)
		})
	}
}

// A stopped master costs a peer that returns at the quorum no more than a vote
// timeout, whichever of the masters it is.
func TestAStoppedMasterIsNotWaitedFor(t *testing.T) {
	const timeout = time.Second
	for _, p := range peers.All {
		switch p.Name {
		case "valkey", "go-redis", "go-redis-duplex", "go-redis-blocking":
		default:
			continue // waits for all, or for a pool
		}
		for victim := range 3 {
			t.Run(fmt.Sprint(p.Name, victim), func(t *testing.T) {
				servers := redistest.Servers(t, 3, redistest.OverTCP)
				c, err := p.Client(load.Settings{URLs: urlsOf(servers, "tcp"), NodeTimeout: timeout})
				require.NoError(t, err)
				t.Cleanup(func() { _ = c.Close(context.Background()) })
				tries := 0
				one := func() error {
					tries++
					return pair(t.Context(), c, fmt.Sprint("r", tries), nil)
				}
				require.NoError(t, tryLate(t, p.Name, patience, one))
				require.NoError(t, servers[victim].Stop())
				defer servers[victim].Continue()
				_ = one() // may wait for the vote timeout, twice
				slow := 0
				for range 100 {
					start := time.Now()
					require.NoError(t, tryLate(t, p.Name, patience, one))
					if time.Since(start) >= timeout {
						slow++
					}
					require.Less(t, slow, 10, "pairs that took a vote timeout; a busy machine stops some")
				}
			})
		}
	}
}

func TestRedislockKnowsOneMaster(t *testing.T) {
	for _, p := range peers.All {
		require.Equal(t, p.Name == "redislock", p.MostNodes == 1)
		if p.Name == "redislock" {
			_, err := p.Client(load.Settings{URLs: []string{"redis://a", "redis://b"}})
			require.Error(t, err)
		}
	}
}
