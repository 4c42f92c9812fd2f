package single

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Latencies returns the names of the faults that MeasureLatency makes: all that
// end.
func Latencies() (names []string) {
	for _, f := range faults {
		if !slices.Contains([]string{Held, Silenced}, f.name) {
			names = append(names, f.name)
		}
	}
	return names
}

// LatencyOptions are the options of MeasureLatency. The zero value works.
type LatencyOptions struct {
	// Faults are names of Latencies. If nil, all of them.
	Faults []string
	// Callers is the load. If zero, 64.
	Callers int
	// Stretch is how long the load runs with the fault, and as long without it;
	// Turns how often. If zero, 2 s and 3.
	Stretch time.Duration
	Turns   int
}

func (o LatencyOptions) complete() LatencyOptions {
	if o.Faults == nil {
		o.Faults = Latencies()
	}
	o.Callers = cmp.Or(o.Callers, 64)
	o.Stretch = cmp.Or(o.Stretch, 2*time.Second)
	o.Turns = cmp.Or(o.Turns, 3)
	return o
}

// Latency is what one fault at one of five nodes costs an acquisition.
type Latency struct {
	Callers int
	Lines   []LatencyLine
}

// A LatencyLine compares a load with one fault with the same load without it.
type LatencyLine struct {
	Fault            string
	Healthy, Faulted Level
}

// String returns a table.
func (l Latency) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "acquire with one fault at one of %d nodes, %d callers, and without it in turn\n", nodes, l.Callers)
	w := newTable(&b)
	fmt.Fprint(w, "  fault\tp50\thealthy\tp99\thealthy\t×\tgrants/s\tof healthy\tfailures\thealthy\t\n")
	for _, x := range l.Lines {
		h, f := x.Healthy, x.Faulted
		fmt.Fprintf(w, "  %s\t%v\t%v\t%v\t%v\t%.2f\t%.0f\t%.2f\t%d\t%d\t\n", x.Fault, tens(f.P50), tens(h.P50), tens(f.P99), tens(h.P99),
			ratio(float64(f.P99), float64(h.P99)), f.Rate, ratio(f.Rate, h.Rate), f.Failures, h.Failures)
	}
	w.Flush()
	return b.String()
}

func tens(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// MeasureLatency loads a client of five nodes, makes exactly one of them fail
// in exactly one way, again and again, and compares with the stretches between.
// Both see the same servers, connections and other load of the machine.
func MeasureLatency(ctx context.Context, options LatencyOptions) (Latency, error) {
	o := options.complete()
	all := Latency{Callers: o.Callers}
	for _, name := range o.Faults {
		line, err := o.measure(ctx, name)
		if err != nil {
			return all, fmt.Errorf("faults: latency: %s: %w", name, err)
		}
		all.Lines = append(all.Lines, line)
	}
	return all, nil
}

// measure makes one line.
func (o LatencyOptions) measure(ctx context.Context, name string) (LatencyLine, error) {
	line := LatencyLine{Fault: name}
	r, err := newRig(ctx, name, o.Callers)
	if err != nil {
		return line, err
	}
	defer r.close()
	for range o.Turns {
		if err := pauseFor(ctx, o.Stretch/4); err != nil { // until buffers have their sizes, and debts are paid
			return line, err
		}
		r.load.to(healthyPhase)
		if err := pauseFor(ctx, o.Stretch); err != nil {
			return line, err
		}
		r.load.to(faultyPhase)
		err := r.fault.last(ctx, r.site, o.Stretch)
		r.load.to(betweenPhase)
		if err := cmp.Or(err, r.fault.heal(r.site)); err != nil {
			return line, err
		}
		if err := awaitCounting(ctx, r.client); err != nil {
			return line, err
		}
	}
	r.load.end()
	line.Healthy, line.Faulted = r.load.level(healthyPhase), r.load.level(faultyPhase)
	return line, nil
}
