package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/bench/compare/internal/report"
	"github.com/redmux/redmux/bench/compare/internal/window"
)

// rounds makes up a quick run: pairs of ours, rueidis and rueidis-tuned, and
// allocations of ours, round by round. go-redis makes half as many as ours.
func rounds(all ...[4]int64) *report.Data {
	d := &report.Data{Settings: report.Settings{Rounds: len(all)}}
	for i, r := range all {
		for j, peer := range []string{compare.Ours, compare.Default, compare.Tuned} {
			result := window.Result{Elapsed: time.Second, Pairs: r[j]}
			if j == 0 {
				result.Mallocs = uint64(r[3])
			}
			d.Samples = append(d.Samples, report.Sample{Case: quickCase, Peer: peer, Round: i, Result: result})
		}
		async := window.Result{Elapsed: time.Second, Pairs: r[0] / 2}
		d.Samples = append(d.Samples, report.Sample{Case: quickCase, Peer: compare.Async, Round: i, Result: async})
	}
	return d
}

func TestQuickAsserts(t *testing.T) {
	for _, c := range []struct {
		name string
		data *report.Data
		want string // what the error names; empty for none
	}{
		{"all well", rounds([4]int64{100000, 10000, 30000, 50}, [4]int64{90000, 10000, 30000, 50}, [4]int64{80000, 10000, 30000, 9}), ""},
		{"just enough", rounds([4]int64{50000, 10000, 25000, 0}), ""},
		{"one good round of three", rounds([4]int64{50000, 10000, 25000, 0}, [4]int64{9000, 10000, 30000, 0}, [4]int64{8000, 10000, 30000, 0}), ""},
		{"slow against default in each round", rounds([4]int64{49900, 10000, 20000, 0}, [4]int64{49000, 10000, 20000, 0}, [4]int64{48000, 10000, 20000, 0}), "default"},
		{"slow against tuned", rounds([4]int64{100000, 10000, 51000, 0}), "tuned"},
		{"an allocation per pair", rounds([4]int64{100000, 10000, 30000, 100000}, [4]int64{100000, 10000, 30000, 100000}), "allocations"},
		{"allocations in one round of two", rounds([4]int64{100000, 10000, 30000, 100000}, [4]int64{100000, 10000, 30000, 10}), ""},
		{"no pair of ours", rounds([4]int64{0, 10000, 30000, 0}), "default"},
		{"nothing measured", rounds(), "nothing was measured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			err := judge(c.data, true, &out)
			assert.Contains(t, out.String(), "pairs/s × rueidis, tuned", "the ratios are printed in any case")
			require.NoError(t, judge(c.data, false, &out), "nothing was asserted")
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestQuickAssertsOnGoredis(t *testing.T) {
	d := rounds([4]int64{100000, 10000, 30000, 0})
	d.Samples[3].Pairs = 90000
	require.ErrorContains(t, judge(d, true, io.Discard), "go-redis: 1.11")
}

func TestQuickTellsOfTrouble(t *testing.T) {
	d := rounds([4]int64{100000, 10000, 30000, 0})
	d.Samples[0].Errors = map[string]int64{"acquire: no quorum": 7}
	d.Samples[1].Result = window.Result{Failure: "it died"}
	var out strings.Builder
	require.ErrorContains(t, judge(d, true, &out), "default: nothing was measured")
	assert.Contains(t, out.String(), "no quorum:7")
	assert.Contains(t, out.String(), "it died")
}
