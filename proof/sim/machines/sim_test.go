package machines

import (
	"flag"
	"io"
	"os"
	"testing"

	"github.com/redmux/redmux/proof/sim"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	seedsFlag   = flag.Int("sim.seeds", 300, "how many seeds TestSim runs")
	seedFlag    = flag.Uint64("sim.seed", 0, "the seed that TestSim runs alone, or with -sim.seeds begins with")
	holdersFlag = flag.Bool("sim.holders", false, "say too after how many seeds what is broken gives two holders, if at all")
	traceFlag   = flag.Bool("sim.trace", false, "print each event of the one seed")
)

// With nothing broken, no property is violated.
func TestSim(t *testing.T) {
	if *seedFlag != 0 {
		report, _ := Run(*seedFlag, Options{Trace: traceTo(*traceFlag)})
		t.Log("\n" + report.String())
		require.Empty(t, report.Violations)
		return
	}
	report := RunMany(1, *seedsFlag, Options{})
	t.Log("\n" + report.String())
	require.Empty(t, report.Violations)
	if *seedsFlag < 300 {
		return
	}
	for _, name := range []string{
		"grants", "extensions", "renewals", "numbers", "numbers of several resources",
		"reads", "writes", "upgrades", "downgrades", "permits", "fair grants", "tickets drawn anew",
	} {
		assert.NotZero(t, report.Counts[name], "%s: these seeds say nothing of them", name)
	}
}

func traceTo(wanted bool) io.Writer {
	if wanted {
		return os.Stdout
	}
	return nil
}

// A seed replays exactly, event by event.
func TestOneSeedReplays(t *testing.T) {
	for seed := range uint64(20) {
		first, hash := Run(seed+1, Options{})
		second, again := Run(seed+1, Options{})
		require.Equal(t, hash, again)
		require.Equal(t, first, second)
	}
	_, one := Run(1, Options{})
	_, two := Run(2, Options{})
	require.NotEqual(t, one, two)
}

// Whichever rule is broken, the referee finds it within three thousand seeds.
func TestEachBrokenPartIsFound(t *testing.T) {
	for _, b := range allByChance {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			seeds, v := find(Options{Broken: b}, 3000)
			assert.NotZero(t, seeds, "it was not found out")
			t.Logf("found after %d seeds by %s", seeds, v.Rule)
			if *holdersFlag {
				alone, _ := find(Options{Broken: b, Only: "exclusion"}, 1000)
				t.Logf("two holders after %d", alone)
			}
		})
	}
}

// The checks that another one may precede find what they are there for.
func TestEachRuleFinds(t *testing.T) {
	for b, rule := range map[Broken]string{
		QuorumLessOne: "order", StaleCounts: "order", PartKept: "deadlock", PartGranted: "part",
		HistoryIgnored: "exclusion", ReadersFewer: "exclusion", ReaderByClientsClock: "exclusion", DowngradeInTwo: "downgrade", TicketNotCompared: "turn",
	} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			seeds, _ := find(Options{Broken: b, Only: rule}, 3000)
			assert.NotZero(t, seeds, "it was not found out")
			t.Logf("found after %d seeds", seeds)
		})
	}
}

func find(o Options, most int) (seeds int, first sim.Violation) {
	for seed := 1; seed <= most; seed++ {
		report, _ := Run(uint64(seed), o)
		if len(report.Violations) > 0 {
			return seed, report.Violations[0]
		}
	}
	return 0, sim.Violation{}
}
