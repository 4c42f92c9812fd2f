package doctor

import (
	"fmt"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
)

// slewing is the rate difference that is remarkable: twice what ntpd and the kernel correct a clock by. chrony goes as far as
// its maxslewrate, which is a twelfth by default.
const slewing = 0.001

// checkClockRate wants clocks that run at one rate and do not step (R4). A rate counts only as far as it is certain, so that a
// slow network shows nothing that is not there.
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
	f := Finding{Level: Unsafe, Seen: unsafe, Found: "a master's clock runs at another rate than ours, or steps",
		Why: fmt.Sprintf("keys expire by the master's clock and validity ends by the client's; more than %v%% between the two "+
			"rates, or a step forward, ends a lock while its holder believes in it", drift*100),
		Change: "have chrony or ntpd slew the clock instead of stepping it, and slowly (chrony: no makestep after the start, and " +
			"maxslewrate 1000, since by default it goes up to 8 %), and look after the virtual machine's clock"}
	if len(unsafe) == len(d.Nodes) && len(unsafe) > 1 {
		f.Found = "this machine's clock runs at another rate than those of all masters"
	}
	g := f
	g.Level, g.Seen, g.Found = Warning, remarkable, "a master's clock is off in its rate by more than time servers correct"
	g.Why = "it is within what locks allow for, but no sane clock does that unless it is being corrected, and it may get worse"
	return append(finding(f), finding(g)...)
}

// allowance is what of a lock's TTL is given to the drift of clocks (R4).
func (d *Deployment) allowance() time.Duration {
	return time.Duration(drift*float64(d.TTL)) + 2*time.Millisecond
}

// certainly is by how much the clock is off at least, in the time it was watched, and how to say so.
func certainly(c probe.Clock) (off time.Duration, what string) {
	off = max(c.Gained, -c.Gained) - c.GainedError
	rate, wrong := c.Rate()
	if c.Stepped {
		return off, fmt.Sprintf("stepped by %v", c.Gained.Round(100*time.Microsecond))
	}
	return off, fmt.Sprintf("%+.2f %% (± %.2f) in %v", rate*100, wrong*100, c.Span.Round(time.Millisecond))
}

// checkClockOffset tells of clocks that show another time of day. Locks do not mind: no time of day ever goes over the wire.
func (d *Deployment) checkClockOffset() []Finding {
	var seen []Sight
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if c := n.Clock; n.ClockKnown && max(c.Ahead, -c.Ahead)-c.AheadError > time.Second {
			seen = append(seen, Sight{n.Addr, fmt.Sprintf("%+.1f s", c.Ahead.Seconds())})
		}
	}
	return finding(Finding{Level: Note, Seen: seen, Found: "a master's time of day differs from ours",
		Why: "that by itself is harmless: locks use time spans only. But whoever corrects it by a step ends locks early or " +
			"lets them last, so it is a sign of a clock that nobody keeps",
		Change: "have time servers on all machines, and correct the clock while no lock is held, or slowly"})
}
