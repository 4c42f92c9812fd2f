package compare_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// A pair is worth comparing only if it is a lock: what one peer holds is held
// for every other, and free afterwards. This also shows that all peers use the
// same keys.
func TestPeersExcludeOneAnother(t *testing.T) {
	for _, n := range []int{1, 3} {
		plain := redistest.Servers(t, n, redistest.OverTCP, redistest.OverUnix)
		secret := redistest.Servers(t, n, redistest.OverTLS)
		for _, network := range []string{"tcp", "unix", "tls"} {
			servers := plain
			if network == "tls" {
				servers = secret
			}
			pairers := openAll(t, urlsOf(servers, network))
			for holder, p := range pairers {
				for other, q := range pairers {
					t.Run(network+"/"+holder+" against "+other, func(t *testing.T) { requireExclusion(t, holder, p, other, q) })
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

// openAll opens all peers that hold locks and can work on so many masters.
func openAll(t *testing.T, urls []string) map[string]compare.Pairer {
	all := map[string]compare.Pairer{}
	for _, p := range compare.Peers {
		if !p.Fits(len(urls)) {
			continue
		}
		open := p.Open
		if p.Ours { // a busy machine must not cost it votes, so that its errors are exact (see late)
			open = compare.OpenOurs(redlock.Config{Portable: p.Name == compare.Portable, NodeTimeout: 5 * time.Second, MaxTTL: ttl})
		}
		pairer, err := open(urls)
		require.NoError(t, err, p.Name)
		t.Cleanup(func() { _ = pairer.Close(context.Background()) })
		if p.Ours { // its masters may not count yet on a busy machine
			require.Eventually(t, func() bool {
				_, err := pairer.Pair(t.Context(), "ready", ttl, nil)
				return err == nil
			}, patience, time.Millisecond, p.Name)
		}
		all[p.Name] = pairer
	}
	return all
}

// late reports whether votes came too late for a peer, as may happen on a busy
// machine. Ours has enough time, and must not return such an error (R12).
func late(peer string, err error) bool {
	switch {
	case err == nil || peer == compare.Ours || peer == compare.Portable:
		return false
	case slices.Contains([]string{"acquire: no quorum", "acquire: timeout", "release: no quorum", "release: timeout"}, compare.Kind(err)):
		return true
	}
	return false
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

func requireExclusion(t *testing.T, holderName string, holder compare.Pairer, otherName string, other compare.Pairer) {
	ctx := context.Background()
	resource, entered, tries, acquired := "", false, 0, time.Duration(0)
	err := tryLate(t, holderName, patience/2, func() (err error) {
		tries++
		resource, entered = fmt.Sprint(t.Name(), " ", tries), false
		acquired, err = holder.Pair(ctx, resource, ttl, func() {
			entered = true
			err := tryLate(t, otherName, patience/2, func() error { // less than the TTL
				_, err := other.Pair(ctx, resource, ttl, func() { t.Error("two hold one resource") })
				return err
			})
			require.Error(t, err)
			assert.Equal(t, "acquire: held", compare.Kind(err))
		})
		return err
	})
	require.NoError(t, err)
	require.True(t, entered, "held was not called")
	assert.Positive(t, acquired)
	// Peers that return at the quorum undo their failed attempt in the
	// background.
	assert.Eventually(t, func() bool {
		_, err := other.Pair(ctx, resource, ttl, nil)
		return err == nil
	}, ttl/2, ttl/2000)
	assert.Eventually(t, func() bool {
		_, err := holder.Pair(ctx, resource, ttl, nil)
		return err == nil
	}, ttl/2, ttl/2000)
}

// A peer that loses its lock must not count the pair.
func TestALostLockIsNoPair(t *testing.T) {
	servers := redistest.Servers(t, 1, redistest.OverTCP)
	for name, p := range openAll(t, urlsOf(servers, "tcp")) {
		t.Run(name, func(t *testing.T) {
			tries := 0
			err := tryLate(t, name, patience/2, func() error {
				tries++
				resource := fmt.Sprint("lost ", name, tries)
				_, err := p.Pair(t.Context(), resource, ttl, func() {
					_, err := servers[0].Do("DEL", resource)
					require.NoError(t, err)
				})
				return err
			})
			require.Error(t, err)
			assert.Equal(t, "release: not held", compare.Kind(err))
		})
	}
}

// A stopped master costs a peer that returns at the quorum no more than a vote
// timeout, whichever of the masters it is.
func TestAStoppedMasterIsNotWaitedFor(t *testing.T) {
	const patient = 10 * time.Second // the TTL: its tenth is the vote timeout
	for _, name := range []string{compare.Async, compare.Duplex, compare.Blocking, compare.Valkey} {
		for victim := range 3 {
			t.Run(fmt.Sprint(name, victim), func(t *testing.T) {
				servers := redistest.Servers(t, 3, redistest.OverTCP)
				peer, err := compare.Find(name)
				require.NoError(t, err)
				p, err := peer.Open(urlsOf(servers, "tcp"))
				require.NoError(t, err)
				t.Cleanup(func() { _ = p.Close(context.Background()) })
				tries := 0
				pair := func() error {
					tries++
					_, err := p.Pair(t.Context(), fmt.Sprint("r", tries), patient, nil)
					return err
				}
				require.NoError(t, tryLate(t, name, patience, pair))
				require.NoError(t, servers[victim].Stop())
				defer servers[victim].Continue()
				_ = pair() // may wait for the vote timeout, twice
				slow := 0
				for range 100 {
					start := time.Now()
					require.NoError(t, tryLate(t, name, patience, pair))
					if time.Since(start) >= patient/10 {
						slow++
					}
					require.Less(t, slow, 10, "pairs that took a vote timeout; a busy machine stops some")
				}
			})
		}
	}
}

func TestRedislockKnowsOneMaster(t *testing.T) {
	p, err := compare.Find("redislock")
	require.NoError(t, err)
	assert.True(t, p.Fits(1))
	assert.False(t, p.Fits(3))
	_, err = p.Open([]string{"redis://a", "redis://b"})
	require.Error(t, err)
}

func TestFind(t *testing.T) {
	for _, p := range compare.Peers {
		found, err := compare.Find(p.Name)
		require.NoError(t, err)
		assert.Equal(t, p.Name, found.Name)
	}
	_, err := compare.Find("nobody")
	require.ErrorContains(t, err, "nobody")
}
