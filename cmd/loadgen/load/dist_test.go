package load

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDist(t *testing.T) {
	for _, text := range []string{"uniform", "zipf:1.1", "zipf:100"} {
		var d dist
		require.NoError(t, d.UnmarshalText([]byte(text)))
		require.Equal(t, text, d.String())
		choose := d.chooser(rand.New(rand.NewPCG(1, 2)), 1)
		require.Zero(t, choose(), "one resource is the only choice")
	}
	for _, bad := range []string{"", "zipf", "zipf:", "zipf:1", "zipf:0.9", "zipf:NaN", "zipf:Inf", "zipf:101", "1.1", "uniform:2"} {
		var d dist
		require.Error(t, d.UnmarshalText([]byte(bad)), bad)
	}
}

// With Zipf the first resource is chosen most, with the share that the law
// gives it; all choices are in range, and each resource is chosen.
func TestDistShares(t *testing.T) {
	shares := func(d dist) []float64 {
		choose := d.chooser(rand.New(rand.NewPCG(1, 2)), 10)
		share := make([]float64, 10)
		for range 100_000 {
			share[choose()] += 1e-5
		}
		return share
	}
	uniform, zipf := shares(dist{}), shares(dist{2})
	for i := range 10 {
		require.InDelta(t, 0.1, uniform[i], 0.01)
		require.Positive(t, zipf[i])
	}
	require.InDelta(t, 0.645, zipf[0], 0.02, "1 / Σ k⁻² for ten")
	require.InDelta(t, 4, zipf[0]/zipf[1], 0.5)
}

// The flags reach the callers: --dist, --seed, --prefix and --keys.
func TestChoiceOfResources(t *testing.T) {
	chosen := func(args ...string) (names []string) {
		name := filepath.Join(t.TempDir(), "history")
		measure(t, (&fakeLocker{ttl: time.Hour}).opens, exitGood,
			append(args, "--embedded", "--spawn=1", "--warmup=0s", "-c1", "-n200", "--prefix=p:", "--keys=100", "--history", name)...)
		for _, l := range readHistory(t, name) {
			if l.Event == evStart {
				names = append(names, l.Resource)
			}
		}
		return names
	}
	count := func(names []string, name string) (n int) {
		for _, x := range names {
			if x == name {
				n++
			}
		}
		return n
	}
	uniform, zipf := chosen("--seed=7"), chosen("--seed=7", "--dist=zipf:3")
	require.Less(t, count(uniform, "p:k0"), 20)
	require.Greater(t, count(zipf, "p:k0"), 100)
	require.Equal(t, uniform, chosen("--seed=7"))
	require.NotEqual(t, uniform, chosen("--seed=8"))
	require.NotEqual(t, chosen(), chosen(), "without a seed each time is another")
}
