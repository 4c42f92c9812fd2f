package load

import (
	"maps"
	"slices"
	"strings"
	"testing"

	records "github.com/redmux/redmux/proof/history"
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

// By the steepest law, which chooses none but the first, there are several
// resources all the same.
func TestKindMultiBySteepLaw(t *testing.T) {
	r := measure(t, openSystem, exitGood, "--spawn=3", "--kind=multi:3", "--keys=5", "--dist=zipf:100", "-c1", "-n10", untilDone, patient, "--warmup=0s").Runs[0]
	require.EqualValues(t, 10, r.Pairs)
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

// Readers and writers, and permits: callers share them, and the referee and the
// history know how many may.
func TestKindShared(t *testing.T) {
	for _, c := range []struct {
		kind  string
		forms []records.Form
	}{
		{"rw:50", []records.Form{records.ReadForm, records.WriteForm}}, {"rw:100", []records.Form{records.ReadForm}},
		{"rw:0", []records.Form{records.WriteForm}}, {"permits:2", []records.Form{records.PermitForm}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			name := t.TempDir() + "/h"
			r := measure(t, openSystem, exitGood, "--spawn=3", "--kind="+c.kind, "--keys=2", "-c4", "--wait=1m", "-n100", untilDone, patient, "--warmup=0s", "--hold=200us", "--history", name).Runs[0]
			require.Equal(t, c.kind, r.Work.Kind)
			require.Zero(t, r.Violations)
			require.EqualValues(t, 100, r.Pairs)
			x := judged(t, name)
			require.Equal(t, 100, x.Grants)
			require.ElementsMatch(t, c.forms, slices.Collect(maps.Keys(x.Forms)))
			require.Empty(t, violated(t, name, func(*records.Event) {}))
			// The same history is wrong if one believed it held more.
			require.Equal(t, c.kind != "rw:0", len(violated(t, name, func(e *records.Event) {
				if e.Form = records.WriteForm; e.Permits > 0 {
					e.Form, e.Permits = records.PermitForm, 1
				}
			})) > 0)
		})
	}
}

// violated is what checkhistory finds in a history that is changed.
func violated(t *testing.T, name string, change func(*records.Event)) []records.Violation {
	t.Helper()
	var x records.Exclusion
	for e, err := range records.Merge(records.DefaultDisorder, records.Open(name)) {
		require.NoError(t, err)
		change(&e)
		x.Add(e)
	}
	return x.Violations()
}

// Fair locks are taken in order: no two at a time. The history has the places of
// those that wait.
func TestKindFair(t *testing.T) {
	name := t.TempDir() + "/h"
	r := measure(t, openSystem, exitGood, "--spawn=3", "--kind=fair", "--keys=2", "-c4", "--wait=1m", "-n100", untilDone, patient, "--warmup=0s", "--hold=200us", "--history", name).Runs[0]
	require.Equal(t, "fair", r.Work.Kind)
	require.Zero(t, r.Violations)
	x := judged(t, name)
	require.Equal(t, 100, x.Forms[records.FairForm])
	require.Positive(t, x.Queued)
}

func TestKindFlag(t *testing.T) {
	for _, bad := range [][]string{
		{"--kind=multi"}, {"--kind=multi:1", "--keys=5"}, {"--kind=multi:65", "--keys=99"}, {"--kind=fair:2"}, {"--kind=plain:1"},
		{"--kind=rw"}, {"--kind=rw:101"}, {"--kind=rw:-1"}, {"--kind=permits"}, {"--kind=permits:0"}, {"--kind=permits:1025"},
		{"--kind=rw:5", "--impl=rueidis"}, {"--kind=multi:3"}, {"--kind=multi:3", "--keys=2"}, {"--kind=multi:2", "--keys=2", "--impl=rueidis"},
	} {
		_, err := parse(bad, nil)
		require.Error(t, err, "%q", bad)
	}
	f, err := parse([]string{"--kind=multi:3", "--keys=10"}, nil)
	require.NoError(t, err)
	require.Equal(t, "multi:3", f.Kind.String())
	require.Contains(t, describeWork(f), "3 of 10 resources for all at once")
	for _, kind := range []string{"plain", "fenced", "fair", "rw:0", "rw:90", "permits:5"} {
		f, err := parse([]string{"--kind=" + kind, "--keys=3"}, nil)
		require.NoError(t, err)
		require.Equal(t, kind, f.Kind.String())
		require.Equal(t, kind != "plain" && kind != "fenced", strings.Contains(describeWork(f), "3 resources for all, "+kind))
	}
}
