package doctor

import (
	"fmt"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
)

// slewing is the rate difference worth a warning: twice what ntpd and the
// kernel correct a clock by. chrony goes up to its maxslewrate, by default a
// twelfth.
const slewing = 0.001

// checkClockRate wants clocks that run at one rate and do not step (R4). Only
// the certain part of a rate counts, so that a slow network causes no finding.
func (d *Deployment) checkClockRate() []Finding {
	var unsafe, remarkable []Sight
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if !n.ClockKnown || n.Clock.Span == 0 {
			continue
		}
		switch off, what := certainly(n.Clock); {
		case n.Clock.Stepped && off > d.allowance():
			unsafe = append(unsafe, Sight{n.Addr, what})
		case n.Clock.Stepped && off > time.Millisecond:
			remarkable = append(remarkable, Sight{n.Addr, what})
		case n.Clock.Stepped:
		case float64(off) > drift*float64(n.Clock.Span):
			unsafe = append(unsafe, Sight{n.Addr, what})
		case float64(off) > slewing*float64(n.Clock.Span):
			remarkable = append(remarkable, Sight{n.Addr, what})
		}
	}
	f := Finding{Level: Unsafe, Seen: unsafe, Found: "a master's clock steps, or runs at a different rate than ours",
		Why: fmt.Sprintf("keys expire by the master's clock and validity ends by the client's; more than %v%% between the two "+
			"rates, or a step forward, frees a lock while its holder relies on it", drift*100),
		Change: "configure chrony or ntpd to slew the clock slowly and never step it (chrony: no makestep after the start, and " +
			"maxslewrate 1000, since the default allows 8 %); on a virtual machine, check that the hypervisor does not set the clock"}
	if len(unsafe) == len(d.Nodes) && len(unsafe) > 1 {
		f.Found = "this machine's clock runs at a different rate than the clocks of all masters"
	}
	g := f
	g.Level, g.Seen, g.Found = Warning, remarkable, "a master's clock steps by milliseconds, or drifts faster than a time server should correct it"
	g.Why = "locks allow for this much, but a healthy clock drifts far less: it is being corrected, or it is about to get worse"
	return append(finding(f), finding(g)...)
}

// allowance is the part of a TTL that is reserved for the drift of clocks (R4).
func (d *Deployment) allowance() time.Duration {
	return time.Duration(drift*float64(d.TTL)) + 2*time.Millisecond
}

// certainly returns how far the clock is off at least, over the time it was
// watched, and a text for it.
func certainly(c probe.Clock) (off time.Duration, what string) {
	off = max(c.Gained, -c.Gained) - c.GainedError
	rate, wrong := c.Rate()
	if c.Stepped {
		return off, fmt.Sprintf("stepped by %v", c.Gained.Round(100*time.Microsecond))
	}
	return off, fmt.Sprintf("%+.2f %% (± %.2f) in %v", rate*100, wrong*100, c.Span.Round(time.Millisecond))
}

// checkClockOffset reports clocks that show another time of day. Locks do not
// depend on it: no time of day goes over the wire.
func (d *Deployment) checkClockOffset() []Finding {
	var seen []Sight
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if c := n.Clock; n.ClockKnown && max(c.Ahead, -c.Ahead)-c.AheadError > time.Second {
			seen = append(seen, Sight{n.Addr, fmt.Sprintf("%+.1f s", c.Ahead.Seconds())})
		}
	}
	return finding(Finding{Level: Note, Seen: seen, Found: "a master's time of day differs from ours",
		Why: "by itself that is harmless: locks use time spans only. But correcting it in one step ends locks early or late, " +
			"and it shows that no time server corrects the clock",
		Change: "run a time server's client on all machines, and correct the clock slowly, or while no lock is held"})
}
