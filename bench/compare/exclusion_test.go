package compare_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/internal/redistest"
)

// A pair is worth comparing only if it is a lock: what any peer holds is held for every other, and free afterwards. That
// also shows that all peers work on the same keys.
func TestPeersExcludeOneAnother(t *testing.T) {
	servers := redistest.Servers(t, 3, redistest.OverTCP, redistest.OverUnix)
	for _, network := range []string{"tcp", "unix"} {
		for _, n := range []int{1, 3} {
			var urls []string
			for _, s := range servers[:n] {
				urls = append(urls, urlOf(s, network))
			}
			pairers := openAll(t, urls)
			for holder, p := range pairers {
				for other, q := range pairers {
					t.Run(network+"/"+holder+" against "+other, func(t *testing.T) { requireExclusion(t, p, q) })
				}
			}
		}
	}
	// Whether anything is left behind is not asked: those that return at the quorum without ordering their commands may
	// leave a key on a master that nobody waited for.
}

func urlOf(s *redistest.Server, network string) string {
	if network == "unix" {
		return s.UnixURL()
	}
	return "redis://" + s.TCPAddr()
}

// openAll opens all peers that hold locks and can work on so many masters.
func openAll(t *testing.T, urls []string) map[string]compare.Pairer {
	all := map[string]compare.Pairer{}
	for _, p := range compare.Peers {
		if p.Bound || !p.Fits(len(urls), 2) {
			continue
		}
		pairer, err := p.Open(urls)
		require.NoError(t, err, p.Name)
		t.Cleanup(func() { _ = pairer.Close(context.Background()) })
		all[p.Name] = pairer
	}
	return all
}

func requireExclusion(t *testing.T, holder, other compare.Pairer) {
	ctx, resource := context.Background(), t.Name()
	entered := false
	acquired, err := holder.Pair(ctx, resource, ttl, func() {
		entered = true
		_, err := other.Pair(ctx, resource, ttl, func() { t.Error("two hold one resource") })
		require.Error(t, err)
		assert.Equal(t, "acquire: held", compare.Kind(err))
	})
	require.NoError(t, err)
	require.True(t, entered, "held was not called")
	assert.Positive(t, acquired)
	// What its attempt left is undone in the background by those that return at the quorum; a lock that is free is free
	// for both in the end.
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
	for name, p := range openAll(t, []string{urlOf(servers[0], "tcp")}) {
		t.Run(name, func(t *testing.T) {
			_, err := p.Pair(t.Context(), "lost "+name, ttl, func() {
				_, err := servers[0].Do("DEL", "lost "+name)
				require.NoError(t, err)
			})
			require.Error(t, err)
			assert.Equal(t, "release: not held", compare.Kind(err))
		})
	}
}

func TestRedislockKnowsOneMaster(t *testing.T) {
	p, err := compare.Find("redislock")
	require.NoError(t, err)
	assert.True(t, p.Fits(1, 1024))
	assert.False(t, p.Fits(3, 1))
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
