package pure

import "time"

// An Account is what a process says of its start, by its uptime in the reply to
// INFO. All times are on this client's clock.
type Account struct {
	// Believed is set if the node never was a replica and its clock agrees with
	// this client's (R29).
	Believed bool
	Uptime   time.Duration // in whole seconds
	Dialed   time.Duration // before the question was sent
	Asked    time.Duration // after the reply had come
}

// Started returns the latest time at which the process can have started.
func (a Account) Started() time.Duration { return a.Asked - UptimeProves(a.Uptime) }

// Least returns the least uptime that the process can report now.
func (a Account) Least(now time.Duration) time.Duration { return a.Uptime + now - a.Asked }

// Most returns the greatest uptime that the process can report now.
func (a Account) Most(now time.Duration) time.Duration { return a.Uptime + now - a.Dialed }

// UptimeProves returns the least time that a process has run if it reports this
// uptime. Servers count in whole seconds, from a start that was rounded to a
// whole second, and some update the clock only now and then.
func UptimeProves(uptime time.Duration) time.Duration { return uptime - 2*time.Second }
