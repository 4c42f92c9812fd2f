package main

import (
	"testing"

	records "github.com/redmux/redmux/internal/proof/history"
	"github.com/stretchr/testify/require"
)

// Locks on several resources: the referee and the history know each of them.
func TestKindMulti(t *testing.T) {
	name := t.TempDir() + "/h"
	r := measure(t, openSystem, exitGood, "--spawn=3", "--kind=multi:3", "--keys=5", "-c4", "--wait=1m", "-n200", untilDone, patient, "--warmup=0s", "--hold=200us", "--history", name).Runs[0]
	require.EqualValues(t, 200, r.Pairs)
	require.Zero(t, r.Violations)
	require.Equal(t, "multi:3", r.Work.Kind)
	grants := make(map[string]int)
	for _, l := range readHistory(t, name) {
		if l.Event == evGrant {
			grants[l.Resource]++
		}
	}
	require.Len(t, grants, 5)
	sum := 0
	for _, n := range grants {
		sum += n
	}
	require.Equal(t, 600, sum)
	require.Equal(t, 600, judged(t, name).Grants)
}

// The history has the numbers of fenced locks, and they are in order.
func TestKindFenced(t *testing.T) {
	name := t.TempDir() + "/h"
	measure(t, openSystem, exitGood, "--spawn=3", "--kind=fenced", "--keys=2", "-c4", "--wait=1m", "-n100", untilDone, patient, "--warmup=0s", "--hold=200us", "--history", name)
	require.Equal(t, 100, judged(t, name).Numbers)
}

// judged is what checkhistory finds.
func judged(t *testing.T, name string) *records.Exclusion {
	t.Helper()
	var x records.Exclusion
	for e, err := range records.Merge(records.DefaultDisorder, records.Open(name)) {
		require.NoError(t, err)
		x.Add(e)
	}
	require.Empty(t, x.Violations())
	return &x
}

// Fair locks are taken in order: no two at a time.
func TestKindFair(t *testing.T) {
	name := t.TempDir() + "/h"
	r := measure(t, openSystem, exitGood, "--spawn=3", "--kind=fair", "--keys=2", "-c4", "--wait=1m", "-n100", untilDone, patient, "--warmup=0s", "--hold=200us", "--history", name).Runs[0]
	require.Equal(t, "fair", r.Work.Kind)
	require.Zero(t, r.Violations)
	require.Equal(t, 100, judged(t, name).Grants)
}

func TestKindFlag(t *testing.T) {
	for _, bad := range [][]string{
		{"--kind=multi"}, {"--kind=multi:1", "--keys=5"}, {"--kind=multi:65", "--keys=99"}, {"--kind=fair:2"}, {"--kind=plain:1"},
		{"--kind=multi:3"}, {"--kind=multi:3", "--keys=2"}, {"--kind=multi:2", "--keys=2", "--impl=rueidis"},
	} {
		_, err := parse(bad, nil)
		require.Error(t, err, "%q", bad)
	}
	f, err := parse([]string{"--kind=multi:3", "--keys=10"}, nil)
	require.NoError(t, err)
	require.Equal(t, "multi:3", f.Kind.String())
	require.Contains(t, describeWork(f), "3 of 10 resources for all at once")
}
