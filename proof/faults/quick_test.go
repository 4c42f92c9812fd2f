package faults

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/proof/history"
)

// quick is a run of some seconds with every kind of fault. Its keys live long
// enough to be found in a rest whose clients took some seconds to settle, and
// between two rests there is time to kill a client, whose keys must have ended
// by the second.
func quick() Options {
	return Options{
		For: 10 * time.Second, MaxTTL: 4 * time.Second, RestEvery: 6 * time.Second, StormEvery: 4 * time.Second,
		Callers: 32, Rate: 24,
	}
}

// Every kind of fault at least once, under every load, and nothing is found: no
// second holder, no reply that is another's, no key that stays behind (R4, R7,
// R8, R13, R15, R16, R23).
func TestFaultsQuick(t *testing.T) {
	redistest.Long(t)
	redistest.Require(t)
	redistest.NoLeaks(t)
	var lines, said bytes.Buffer
	options := quick()
	options.History, options.Log = &lines, &said
	kinds, err := chosen(nil)
	require.NoError(t, err)
	const operations, fenced = uint64(3000), uint64(50)
	// Ten seconds are enough as a rule, but the machine may be busy, and a
	// fault right before the first rest may keep clients away for most of them.
	// The last rest comes after the end.
	var seconds []uint64 // operations of each second with any: in the others there was a rest, or the processes began
	last := uint64(0)
	options.Progress = func(r *Report) {
		if done := r.Tally[Operations]; done > last {
			seconds = append(seconds, done-last)
			last = done
		}
	}
	options.wants = func(r *Report) bool {
		every := !slices.ContainsFunc(kinds, func(k *Kind) bool { return r.Faults[k.Name] == 0 })
		return every && r.Tally[Operations] > operations && r.Tally[AfterReset] >= fenced && len(r.Idle()) == 0 &&
			len(r.Tally.none([]Count{Rests, Looked, Contended, HandedOver, Looks})) == 0
	}
	report, err := Run(context.Background(), options)
	require.NoError(t, err, said.String())
	var text bytes.Buffer
	require.NoError(t, report.Print(&text))
	t.Log(text.String())
	assert.Empty(t, report.Violations)
	assert.Empty(t, report.Findings)
	assert.Empty(t, report.Orphans, said.String())
	assert.Empty(t, report.Unsettled)
	assert.Zero(t, report.Tally[Failed], "attempts that ended with an error that has no name")
	assert.True(t, options.wants(report), "a kind of fault or something else is missing: %v", report.Idle())
	for name, n := range report.FailedInjections { // once or twice is a busy machine
		assert.LessOrEqual(t, n, max(2, report.Faults[name]), "%s could not be made: %s", name, report.WhyFailed[name])
	}
	assert.Empty(t, report.NeverMade())
	// Thousands a second are usual. More time than ten seconds is given for
	// what is rare, and not to a client that stalls.
	assert.Greater(t, float64(report.Tally[Operations]), 30*report.Took.Seconds(), "an average, with rests")
	require.NotEmpty(t, seconds)
	slices.Sort(seconds)
	assert.Greater(t, seconds[len(seconds)/2], uint64(100), "in the median second")
	t.Logf("operations in a second: %d to %d, median %d", seconds[0], seconds[len(seconds)-1], seconds[len(seconds)/2])
	assert.GreaterOrEqual(t, report.Tally[Rests], uint64(2))

	var again history.Exclusion // the file says what the run said
	for e, err := range history.Read(&lines) {
		require.NoError(t, err)
		again.Add(e)
	}
	assert.Empty(t, again.Violations())
	assert.EqualValues(t, report.Tally[Contended], again.Grants)
	assert.GreaterOrEqual(t, uint64(again.Numbers), report.Tally[AfterReset])
}

// The checks find what they are there for: each way to be wrong is found, and
// by the check that it is for.
func TestBrokenClientsAreFound(t *testing.T) {
	redistest.Long(t)
	redistest.Require(t)
	redistest.NoLeaks(t)
	found := map[string]func(*Report) []string{
		brokenQuorum:  func(r *Report) []string { return r.Violations },
		brokenRelease: func(r *Report) []string { return slices.Concat(r.Violations, r.Findings) },
		brokenOrphan:  func(r *Report) []string { return r.Orphans },
		brokenReplies: func(r *Report) []string { return r.Findings },
		brokenNumber:  func(r *Report) []string { return violations(r, history.NumberNotHigher) },
		brokenSet:     func(r *Report) []string { return violations(r, history.TwoHolders) },
		brokenWriter:  func(r *Report) []string { return violations(r, history.TwoHolders) },
		brokenPermits: func(r *Report) []string { return violations(r, history.TooManyPermits) },
		brokenQueue:   func(r *Report) []string { return violations(r, history.Overtook) },
		brokenLeader:  func(r *Report) []string { return violations(r, history.TwoHolders) },
	}
	require.Len(t, found, len(Broken()))
	for _, broken := range Broken() {
		t.Run(broken, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			options := quick()
			options.Broken, options.Rate, options.MaxTTL = broken, 4, 5*time.Second
			options.For, options.RestEvery = 2*time.Minute, 2*time.Second // found by the first rest, as a rule
			began := time.Now()
			var after time.Duration // for the log, so that a growth shows
			options.Progress = func(r *Report) {
				if len(found[broken](r)) > 0 && after == 0 {
					after = time.Since(began)
					cancel()
				}
			}
			report, err := Run(ctx, options)
			require.NoError(t, err)
			assert.True(t, report.Violated())
			what := found[broken](report)
			require.NotEmpty(t, what)
			t.Logf("found after %v: %d violations, %d findings, %d orphans; the first: %s", after.Round(time.Second), len(report.Violations), len(report.Findings), len(report.Orphans), what[0])
		})
	}
}

// violations returns those of one fault.
func violations(r *Report, f history.Fault) (some []string) {
	for _, v := range r.Violations {
		if strings.Contains(v, string(f)) {
			some = append(some, v)
		}
	}
	return some
}

// An interrupt ends a run early, and it is judged all the same; nothing of it
// is left.
func TestInterrupted_R28(t *testing.T) {
	redistest.Require(t)
	redistest.NoLeaks(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	report, err := Run(ctx, Options{For: time.Hour, RestEvery: time.Hour, Progress: func(r *Report) {
		if r.Tally[Grants] > 0 {
			cancel()
		}
	}})
	require.NoError(t, err)
	assert.EqualValues(t, 1, report.Tally[Rests], "the last look for orphans")
	assert.Positive(t, report.Tally[Grants])
	assert.False(t, report.Violated())
}

func TestOptionsThatCannotWork(t *testing.T) {
	for _, o := range []Options{
		{Nodes: 17}, {Nodes: -1}, {Processes: -1}, {Callers: -1}, {Rate: -1}, {For: -1}, {MaxTTL: time.Millisecond},
		{Kinds: []string{"no such kind"}},
	} {
		_, err := Run(context.Background(), o)
		assert.ErrorContains(t, err, "faults: ", "%+v", o)
	}
}

func TestMain(m *testing.M) {
	WorkerMain() // never returns in a client process
	os.Exit(m.Run())
}
