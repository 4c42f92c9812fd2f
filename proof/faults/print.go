package faults

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// listShown bounds what is printed of a list.
const listShown = 10

// Print writes the report as text.
func (r *Report) Print(to io.Writer) error {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("%d servers (%s), %d processes, %d uncontended callers, seed %d, %v", len(r.Servers), r.products(),
		r.Processes, r.Callers, r.Seed, r.Took.Round(100*time.Millisecond))
	say("faults: %d, of %d of %d kinds, %.1f a second; at most %d nodes at once, %d times no quorum was left",
		r.Injected, r.kindsMade(), r.Kinds, float64(r.Injected)/r.Took.Seconds(), r.MostAtOnce, r.Tally[Majorities])
	if r.NotCovered != "" {
		say("NOT COVERED: %s", r.NotCovered)
	}
	r.tell(say)
	say("memory: heap at most %d MiB, RSS %d MiB, %d goroutines, %d descriptors in any process",
		r.Peaks.Heap>>20, r.Peaks.RSS>>20, r.Peaks.Goroutines, r.Peaks.Descriptors)
	say("rests: %d, settled after: %v; looked for orphans in %d: %d keys of holders", r.Tally[Rests], r.Settled, r.Tally[Looked], r.Tally[Keys])
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		say("  %-18s %d", kind, r.Faults[kind])
	}
	for _, trend := range r.Trends {
		say("%s %v", map[bool]string{true: "GROWS", false: "trend"}[trend.Grows], trend)
	}
	list(say, "failed injections", failed(r))
	list(say, "not settled", r.Unsettled)
	list(say, "orphans", r.Orphans)
	list(say, "mix-ups and other findings", r.Findings)
	list(say, "violations of exclusion", r.Violations)
	_, err := io.WriteString(to, b.String())
	return err
}

type sayer = func(format string, args ...any)

// tell prints the tally.
func (r *Report) tell(say sayer) {
	t := &r.Tally
	say("operations: %d, %.0f a second; of %d attempts %d granted, %d held, %d no quorum, %d expired, %d overloaded, %d cancelled, "+
		"%d failed", t[Operations], float64(t[Operations])/r.Took.Seconds(), t[Attempts], t[Grants], t[Held], t[NoQuorum],
		t[Expired], t[Overloaded], t[Cancelled], t[Failed])
	say("  %d extensions, %d holds with %d renewals and %d losses; releases: %d found it lost, %d unsure",
		t[Extensions], t[Holds], t[Renewals], t[Losses], t[ReleasesLost], t[ReleasesUnsure])
	say("  %d fenced locks, %d locks on several resources, %d both; %d second rounds, %d refusals without a floor, "+
		"%d resets of the fence and %d grants with a number after the first", t[Fenced], t[Sets], t[FencedSets], t[Renumbered],
		t[NoFloor], t[Resets], t[AfterReset])
	say("  %d readers and %d writers, %d upgrades, %d downgrades, %d of locks that were over; %d permits; %d fair locks, "+
		"%d answers with a place in the queue; %d terms of leaders, %d of which stepped down", t[Reads], t[Writes], t[Upgrades],
		t[Downgrades], t[Gone], t[Permits], t[InOrder], t[Queued], t[Terms], t[StepsDown])
	say("  contended: %d grants in %d events, %d handed over, %d outlived their validity, %d were over when told",
		t[Contended], t[Events], t[HandedOver], t[Overdue], t[Empty])
	say("  %d locks were compared with the nodes; %d losses excused by nodes that forgot", t[Looks], t[Excused])
}

// products names the servers, each product and version once.
func (r *Report) products() string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(r.Servers))), ", ")
}

// kindsMade is of how many kinds there was a fault.
func (r *Report) kindsMade() (n int) {
	for kind, times := range r.Faults {
		if kind != repairKind.Name && times > 0 {
			n++
		}
	}
	return n
}

func failed(r *Report) (all []string) {
	for _, kind := range slices.Sorted(maps.Keys(r.FailedInjections)) {
		all = append(all, fmt.Sprintf("%s: %d; the first: %s", kind, r.FailedInjections[kind], r.WhyFailed[kind]))
	}
	return all
}

func list(say sayer, title string, all []string) {
	say("%s: %d", title, len(all))
	for _, line := range all[:min(len(all), listShown)] {
		say("  %s", line)
	}
}
