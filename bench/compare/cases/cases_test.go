//go:build unix

package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench/compare/peers"
	"github.com/redmux/redmux/internal/redistest"
)

// TestMain lets loops of this test program do their job.
func TestMain(m *testing.M) {
	beBusy()
	os.Exit(m.Run())
}

// loadgen takes the flags of each case, and all implementations work. The first
// and the last row of each are made, as small as can be.
func TestEachCaseRuns(t *testing.T) {
	redistest.Require(t)
	for _, c := range All {
		if c.Do != nil {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			first, last := c.Rows[0], c.Rows[len(c.Rows)-1]
			c.Rows = []Row{first, last}
			for i := range c.Rows {
				c.Rows[i].Flags += " --duration=10s --ops=4 --warmup=0s --runs=1 --node-timeout=5s"
				c.Rows[i].Busy = min(c.Rows[i].Busy, 1)
			}
			c.Least, c.MostAllocs = nil, 0
			var stdout, stderr strings.Builder
			figures, err := c.measure(&stdout, &stderr, nil, peers.Implementations())
			require.NoError(t, err, &stderr)
			want := strings.Count(first.flag("--impl"), ",") + strings.Count(last.flag("--impl"), ",") + 2
			require.Len(t, figures, want)
			for _, f := range figures {
				require.Len(t, f, len(columns))
				require.NotContains(t, f.String(), " 0 (", "nothing was granted")
				require.Contains(t, stdout.String(), f[10])
			}
		})
	}
}

// The whole matrix: everything with the most masters, and no more than three
// quarters of an hour.
func TestMatrix(t *testing.T) {
	counts, took := map[string]int{}, time.Duration(0)
	for _, r := range matrix() {
		counts[fmt.Sprint(r.flag("--network"), r.flag("--spawn"), r.flag("--fault") != "")]++
		took += r.takes()
	}
	assert.Equal(t, map[string]int{
		"tcp1false": 4, "tcp3false": 4, "tcp5false": 4, "tcp5true": 4, "unix1false": 4, "unix3false": 4, "unix5false": 4, "unix5true": 4,
		"tls5false": 4, "tls5true": 4,
	}, counts)
	assert.Less(t, took, 40*time.Minute, "and some minutes to open and close")
	assert.Greater(t, took, 5*time.Minute)
}

// rounds have pairs per second of ours, the two baselines and go-redis, and
// allocations of ours.
func rounds(all ...[5]float64) (runs []run) {
	for _, r := range all {
		runs = append(runs, run{Impl: "redlock", PairsPerS: r[0], AllocsPerPair: r[4]})
		for i, name := range []string{"rueidis", "rueidis-tuned", "go-redis"} {
			runs = append(runs, run{Impl: name, PairsPerS: r[i+1]})
		}
	}
	return runs
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name string
		runs []run
		want string // what the error names; empty for none
	}{
		{"all well", rounds([5]float64{100, 10, 30, 50, 0.01}, [5]float64{90, 10, 30, 50, 0.01}), ""},
		{"just enough", rounds([5]float64{50, 10, 25, 38, 0}), ""},
		{"one good round of three", rounds([5]float64{50, 10, 25, 38, 0}, [5]float64{9, 10, 30, 38, 0}, [5]float64{8, 10, 30, 38, 0}), ""},
		{"slow against the default in each", rounds([5]float64{49.9, 10, 20, 30, 0}, [5]float64{48, 10, 20, 30, 0}), "× rueidis:"},
		{"slow against the tuned", rounds([5]float64{100, 10, 51, 30, 0}), "rueidis-tuned"},
		{"slow against go-redis", rounds([5]float64{100, 10, 30, 90, 0}), "go-redis: 1.11"},
		{"an allocation per pair", rounds([5]float64{100, 10, 30, 30, 1}, [5]float64{100, 10, 30, 30, 1}), "allocations"},
		{"allocations in one round of two", rounds([5]float64{100, 10, 30, 30, 1}, [5]float64{100, 10, 30, 30, 0}), ""},
		{"no pair of ours", rounds([5]float64{0, 10, 30, 30, 0}), "× rueidis:"},
		{"nothing measured", nil, "nothing was measured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			err := All[0].judge(&out, c.runs)
			assert.Contains(t, out.String(), "pairs/s × rueidis-tuned", "the ratios are printed in any case")
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Figures are the medians of the rounds, and a file keeps those of other cases.
func TestFigures(t *testing.T) {
	runs := []run{
		{Impl: "a", N: 5, Clients: 16, PairsPerS: 3, AcquireUS: map[string]float64{"p50": 1}, Outcomes: map[string]int64{"granted": 3, "held": 1}},
		{Impl: "b", PairsPerS: 9},
		{Impl: "a", N: 5, Clients: 16, PairsPerS: 1, AcquireUS: map[string]float64{"p50": 2}},
		{Impl: "a", N: 5, Clients: 16, PairsPerS: 2000, AcquireUS: map[string]float64{"p50": 3}},
	}
	runs[0].Work.Faults = []string{"0s:stop:2:1m"}
	figures := figuresOf("one", Row{Busy: 2}, runs)
	require.Len(t, figures, 2)
	assert.Equal(t, "one,unix,5,16,,,,,one stopped,2,a,3,3,1,2000,2,0,0,0,0,,0,0,"+today(), strings.Join(figures[0], ","))

	file := filepath.Join(t.TempDir(), "figures.csv")
	require.NoError(t, keep(file, "one", figures))
	require.NoError(t, keep(file, "two", figuresOf("two", Row{}, runs[1:2])))
	require.NoError(t, keep(file, "one", figures[:1]))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	require.Len(t, lines, 4)
	assert.Regexp(t, `^case,network,n,`, lines[0])
	assert.Regexp(t, `^two,.*,b,`, lines[1])
	assert.Regexp(t, `^one,.*,a,`, lines[2])

	require.NoError(t, os.WriteFile(file, []byte("other,columns\n"), 0o600))
	require.ErrorContains(t, keep(file, "one", figures), "columns")
}

// The loops take processor time, and end.
func TestBusy(t *testing.T) {
	used := func() time.Duration {
		var usage syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage)) // of those that ended
		return time.Duration(usage.Utime.Nano())
	}
	before := used()
	stop, err := startBusy(2)
	require.NoError(t, err)
	time.Sleep(500 * time.Millisecond)
	stop()
	require.Greater(t, used()-before, 50*time.Millisecond)
}

func TestARunThatFails(t *testing.T) {
	_, err := Row{Flags: "--nonsense"}.run(&strings.Builder{}, nil, nil)
	require.ErrorContains(t, err, "exit code 2")
}
