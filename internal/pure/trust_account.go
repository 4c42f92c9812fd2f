package pure

import "time"

// An Account is what a process says of its start, by its uptime in the reply to
// INFO. All times are on this client's clock.
type Account struct {
	Believed bool          // see Believed
	Uptime   time.Duration // in whole seconds
	Dialed   time.Duration // before the question was sent
	Asked    time.Duration // after the reply had come
}

// Believed reports whether the account of a process with this run id is
// believed (R29). The node must never have been a replica. Its clock, the
// measure of the uptime, must agree with this client's; ahead is the
// difference.
func Believed(run string, unpromoted bool, ahead time.Duration) bool {
	const clocksAgree = time.Second
	return run != "" && unpromoted && ahead.Abs() <= clocksAgree
}

// Started returns the latest time at which the process can have started.
func (a Account) Started() time.Duration { return a.Asked - UptimeProves(a.Uptime) }

// Least returns the least uptime that the process can report now.
func (a Account) Least(now time.Duration) time.Duration { return a.Uptime + now - a.Asked }

// Most returns the greatest uptime that the process can report now.
func (a Account) Most(now time.Duration) time.Duration { return a.Uptime + now - a.Dialed }

// UptimeProves returns the least run of a process that reports this uptime.
// Servers count in whole seconds, from a start that was rounded to a whole
// second, and some update the clock only now and then.
func UptimeProves(uptime time.Duration) time.Duration { return uptime - 2*time.Second }
