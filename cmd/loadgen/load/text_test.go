package load

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRatioIsOfMedians(t *testing.T) {
	runs := func(rates ...float64) (all []runResult) {
		for _, r := range rates {
			all = append(all, runResult{PairsPerS: r})
		}
		return all
	}
	rate := func(r runResult) float64 { return r.PairsPerS }
	require.Equal(t, "3.00 (1.50–4.00)", ratio(runs(30, 40, 20), runs(20, 10, 10), rate))
	require.Equal(t, "1.25 (1.00–1.50)", ratio(runs(10, 15), runs(10, 10), rate))
	require.Equal(t, "?", ratio(runs(10), runs(0), rate))
}

func TestThousands(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 123456.7: "123,457", 1e9: "1,000,000,000"} {
		require.Equal(t, want, thousands(x))
	}
}

func TestText(t *testing.T) {
	f := &flags{Clients: 3, Keys: 1, TTL: time.Second, Impl: []string{"redlock", "rueidis"}, Hold: hold{time.Millisecond, true}, Wait: time.Minute, CancelAfter: time.Hour, Seed: 17}
	node := nodeResult{"a:1", "valkey", "9.1.2"}
	r := result{Runs: []runResult{
		{Impl: "redlock", Backend: "remote", N: 2, Nodes: []nodeResult{node, node}, PairsPerS: 20_000, AcquireUS: quantiles{1.234, 12.34, 123.4, 1234, 12345}, Outcomes: outcomeCounts{Granted: 7, Held: 8}},
		{Impl: "rueidis", Backend: "remote", N: 2, Nodes: []nodeResult{node, {}}, PairsPerS: 10_000, Errors: map[string]int64{"rare": 1, "often": 5}, Violations: 9},
	}}
	var b strings.Builder
	require.NoError(t, r.writeText(&b, f, "a remark"))
	for _, want := range []string{
		"2 remote nodes: valkey 9.1.2\n", "3 callers in a closed loop, 1 resource for all, TTL 1s, held for 1ms on average, tries for 1m0s, cancelled after 1h0m0s, seed 17\n", "a remark\n",
		"20,000", "1.23  12.3  123   1234  12345", "run 2: 5 × often\nrun 2: 1 × rare\n", "redlock to rueidis: pairs/s × 2.00 (2.00–2.00)",
	} {
		require.Contains(t, b.String(), want)
	}
	b.Reset()
	require.NoError(t, result{}.writeText(&b, f, ""), "interrupted before the first run")
	require.Empty(t, b.String())
}
