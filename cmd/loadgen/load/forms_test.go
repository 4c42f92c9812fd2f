package load

import (
	"bytes"
	"encoding/csv"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// printed returns what the command prints in a format.
func printed(t *testing.T, form string, args ...string) string {
	t.Helper()
	var stdout bytes.Buffer
	args = append([]string{"-q", "--embedded", "--spawn=3", "--warmup=0s", "-n10", "-c2", "-o", form}, args...)
	require.Equal(t, exitGood, runWith((&fakeLocker{ttl: time.Hour}).opens, args, &stdout, io.Discard, nil))
	return stdout.String()
}

// Scripts read these names.
func TestCSV(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(printed(t, "csv", "--runs=2", "--impl=redlock,rueidis"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 5)
	require.Equal(t, "impl backend n clients loop rate duration_s pairs pairs_per_s acquire_p50_us acquire_p90_us acquire_p99_us acquire_p999_us acquire_max_us "+
		"release_p50_us release_p90_us release_p99_us release_p999_us release_max_us "+
		"allocs_per_pair bytes_per_pair cpu_us_per_pair granted held noquorum expired cancelled error violations late not_begun", strings.Join(rows[0], " "))
	require.Equal(t, []string{"redlock", "embedded", "3", "2", "closed", "0"}, rows[1][:6])
	require.Equal(t, "rueidis", rows[2][0])
	for _, row := range rows[1:] {
		require.Equal(t, "10", row[7])
		require.Equal(t, "10", row[22])
		for _, cell := range row[5:] {
			_, err := strconv.ParseFloat(cell, 64)
			require.NoError(t, err)
			require.NotContains(t, cell, "e")
		}
	}
}

// The format is go.dev/design/14313-benchmark-format: a name, a number of
// iterations, and pairs of a value and a unit.
func TestGoBenchmarkFormat(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(printed(t, "bench", "--rate=1e5", "--runs=2")), "\n")
	require.Contains(t, lines, "pkg: github.com/redmux/redmux/cmd/loadgen")
	form := regexp.MustCompile(`^BenchmarkAcquireRelease(/[a-z]+=[a-z0-9]+)+-\d+\t10(\t\d+(\.\d+)? [^\s]+)+$`)
	var results []string
	for _, l := range lines {
		if strings.HasPrefix(l, "Benchmark") {
			require.Regexp(t, form, l)
			results = append(results, l)
		} else {
			require.Regexp(t, `^(\w+: |Unit )`, l)
		}
	}
	require.Len(t, results, 2)
	require.Contains(t, results[0], "/impl=redlock/backend=embedded/nodes=3/callers=2/loop=open/rate=100000-")
	for _, unit := range []string{"ns/op", "pairs/s", "acquire-p99-ns", "B/op", "allocs/op", "late", "not-begun"} {
		require.Contains(t, results[0]+"\t", " "+unit+"\t")
	}
	require.NotContains(t, printed(t, "bench"), "late", "a closed loop has no time to be late for")
}

// A run without a pair has no time per operation and no latency; zeros would be
// the best figures of all.
func TestNoFiguresOfARunWithoutAPair(t *testing.T) {
	var b strings.Builder
	nothing := result{Runs: []runResult{{Impl: "redlock", Loop: "closed"}}}
	require.NoError(t, nothing.writeBench(&b))
	require.NotContains(t, b.String(), "Benchmark")
	b.Reset()
	writeTables(&b, nothing.Runs)
	require.Equal(t, 13, strings.Count(b.String(), "–"))
	require.NotContains(t, b.String(), "0.00")
	require.Empty(t, pageQuantiles(latency{}, quantiles{}).Percentiles)
}

// A latency after a long stall is not cut to something shorter.
func TestLongLatency(t *testing.T) {
	l := newLatency()
	l.record(10 * time.Minute)
	require.InEpsilon(t, 600e6, l.quantiles().Max, 0.01)
	l.record(2 * longest) // counted as the longest
	require.InEpsilon(t, float64(longest.Microseconds()), l.quantiles().Max, 0.01)
}

// The text names the kind of loop.
func TestTextOfLoops(t *testing.T) {
	closed := printed(t, "text", "--runs=2")
	require.Contains(t, closed, "2 callers in a closed loop")
	require.Contains(t, closed, "Closed loop: ")
	// A single caller, since the fake grants every lock: two callers on one key
	// would be a violation.
	open := printed(t, "text", "-c1", "-r100000", "--keys=3", "--dist=zipf:1.5")
	require.Contains(t, open, "1 caller in an open loop of 100000 attempts/s, 3 resources for all (zipf:1.5)")
	require.Contains(t, open, "Open loop: latencies count from the intended start")
}
