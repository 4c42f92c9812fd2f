package single

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/redmux/redmux/proof/faults/measure"
	"github.com/redmux/redmux/redlock"
)

// Stalls returns the names of the faults that keep a node connected and silent.
func Stalls() []string { return []string{Stopped, HeldUp, HeldDown, Dripping, Silenced} }

const (
	// stalledGrowth bounds the growth of memory in use, and stalledRSSGrowth
	// that of resident memory: the collector lets as much again become garbage
	// before it runs.
	stalledGrowth    = 16 << 20
	stalledRSSGrowth = 2 * stalledGrowth
	// stalledSample is the time between two samples, each of which collects
	// garbage.
	stalledSample = 500 * time.Millisecond
	// stalledSamples is the least number of samples, however long they take on
	// a busy machine.
	stalledSamples = 5
)

// StalledOptions are the options of MeasureStalled. The zero value works.
type StalledOptions struct {
	// Faults are names of Stalls. If nil, all of them.
	Faults []string
	// Callers are how many acquire and release at once. Each number is a
	// measurement of its own. If nil, 128 and 1,024.
	Callers []int
	// Healthy and Stalled are how long the load runs before the node stalls,
	// and from then on. If zero, 5 s and 20 s.
	Healthy, Stalled time.Duration

	leak int // bytes to lose at each sample while the node is stalled, to see that it is found
}

func (o StalledOptions) complete() StalledOptions {
	if o.Faults == nil {
		o.Faults = Stalls()
	}
	if o.Callers == nil {
		o.Callers = []int{128, 1024}
	}
	o.Healthy = cmp.Or(o.Healthy, 5*time.Second)
	o.Stalled = cmp.Or(o.Stalled, 20*time.Second)
	return o
}

// Stalled is what a client costs while one of five nodes is connected and
// silent.
type Stalled struct{ Lines []StalledLine }

// A StalledLine is the measurement of one fault with one load.
type StalledLine struct {
	Fault            string
	Callers          int
	Healthy, Stalled StalledLevel
	// What the client says of the node: how often it was given up, connections
	// that were made, and the most releases owed.
	GivenUp, Connects, Debts int
}

// A StalledLevel is what was done in one part of the measurement, and the most
// memory in it.
type StalledLevel struct {
	Level
	Heap, RSS uint64 // bytes: in use after a collection, and resident; RSS is 0 where the system does not tell
}

// HeapGrowth and RSSGrowth are the growth of memory since all nodes were
// healthy, in bytes; zero if it shrank.
func (l StalledLine) HeapGrowth() uint64 { return growth(l.Healthy.Heap, l.Stalled.Heap) }

// RSSGrowth is HeapGrowth for resident memory.
func (l StalledLine) RSSGrowth() uint64 { return growth(l.Healthy.RSS, l.Stalled.RSS) }

func growth(before, after uint64) uint64 { return max(before, after) - before }

// Err names the lines whose heap grew by more than 16 MiB, or whose resident
// memory by more than 32 MiB. Throughput depends on the machine, and is the
// caller's to judge.
func (s Stalled) Err() error {
	var errs []error
	for _, l := range s.Lines {
		if l.HeapGrowth() > stalledGrowth || l.RSSGrowth() > stalledRSSGrowth {
			errs = append(errs, fmt.Errorf("R26: %s, %d callers: the heap grew by %s and the resident memory by %s, more than %s and %s",
				l.Fault, l.Callers, measure.Mebibytes(l.HeapGrowth()), measure.Mebibytes(l.RSSGrowth()), measure.Mebibytes(stalledGrowth), measure.Mebibytes(stalledRSSGrowth)))
		}
	}
	return errors.Join(errs...)
}

// String returns a table.
func (s Stalled) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "one of %d nodes connected and silent, at full load\n", nodes)
	w := newTable(&b)
	fmt.Fprint(w, "  node is\tcallers\tfor\theap\tgrew\tRSS\tgrew\tgrants/s\tof healthy\tp99\tof healthy\tgiven up\tconnects\tdebts\t\n")
	for _, l := range s.Lines {
		fmt.Fprintf(w, "  %s\t%d\t%v\t%s\t%s\t%s\t%s\t%.0f\t%.2f\t%v\t%.2f\t%d\t%d\t%d\t\n", l.Fault, l.Callers, l.Stalled.Lasted.Round(time.Second),
			measure.Mebibytes(l.Stalled.Heap), measure.Mebibytes(l.HeapGrowth()), measure.Mebibytes(l.Stalled.RSS), measure.Mebibytes(l.RSSGrowth()),
			l.Stalled.Rate, ratio(l.Stalled.Rate, l.Healthy.Rate),
			tenths(l.Stalled.P99), ratio(float64(l.Stalled.P99), float64(l.Healthy.P99)), l.GivenUp, l.Connects, l.Debts)
	}
	w.Flush()
	return b.String()
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// MeasureStalled loads a client with as many callers as it can serve, makes one
// of its five nodes silent while the connection stays, and compares the memory
// of this process before and after. The proxy or silencer before the node runs
// in this process too and is counted: some hundred KiB for each connection.
func MeasureStalled(ctx context.Context, options StalledOptions) (Stalled, error) {
	o := options.complete()
	var all Stalled
	for _, name := range o.Faults {
		for _, callers := range o.Callers {
			line, err := o.measure(ctx, name, callers)
			if err != nil {
				return all, fmt.Errorf("faults: stalled: %s: %w", name, err)
			}
			all.Lines = append(all.Lines, line)
		}
	}
	return all, nil
}

// measure makes one line.
func (o StalledOptions) measure(ctx context.Context, name string, callers int) (StalledLine, error) {
	l := StalledLine{Fault: name, Callers: callers}
	r, err := newRig(ctx, name, callers)
	if err != nil {
		return l, err
	}
	defer r.close()
	// Buffers and pools get their sizes first.
	if err := pauseFor(ctx, min(time.Second, o.Healthy)); err != nil {
		return l, err
	}
	r.load.to(healthyPhase)
	if err := l.Healthy.watch(ctx, o.Healthy, func() {}); err != nil {
		return l, err
	}
	r.load.to(faultyPhase)
	if err := r.fault.on(r.site); err != nil {
		return l, err
	}
	var lost [][]byte
	err = l.Stalled.watch(ctx, o.Stalled, func() {
		node := r.client.Nodes()[victim]
		l.GivenUp, l.Connects, l.Debts = deathsOf(node), node.Connects, max(l.Debts, node.Debts)
		if o.leak > 0 {
			lost = append(lost, make([]byte, o.leak))
		}
	})
	runtime.KeepAlive(lost)
	r.load.to(betweenPhase)
	// The fault ends before the callers do, so that the servers end cleanly.
	err = errors.Join(err, r.fault.heal(r.site))
	r.load.end()
	l.Healthy.Level, l.Stalled.Level = r.load.level(healthyPhase), r.load.level(faultyPhase)
	return l, err
}

// deathsOf counts the connections to a node that have ended for any reason.
func deathsOf(node redlock.NodeStatus) (n int) {
	for _, deaths := range node.Counts.Deaths {
		n += int(deaths)
	}
	return n
}

// watch samples the memory for a time, and keeps the most.
func (l *StalledLevel) watch(ctx context.Context, lasts time.Duration, sampled func()) error {
	end := time.Now().Add(lasts)
	for samples := 1; ; samples++ {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		l.Heap = max(l.Heap, m.HeapInuse)
		l.RSS = max(l.RSS, measure.ResidentMemory())
		sampled()
		pause := min(time.Until(end), stalledSample)
		if pause <= 0 {
			if samples >= stalledSamples {
				return nil
			}
			pause = stalledSample
		}
		if err := pauseFor(ctx, pause); err != nil {
			return err
		}
	}
}
