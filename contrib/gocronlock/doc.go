// Package gocronlock makes several schedulers of github.com/go-co-op/gocron/v2
// run each job once, by locks of package redlock. It does not import gocron, so
// it adds no dependency: the program names gocron's interface.
//
//	locker, err := gocronlock.NewLocker[gocron.Lock](client, gocronlock.Options{MinHold: 5 * time.Second})
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
//	// An election needs Config.Fenced and Config.Owner.
//	elector, err := gocronlock.NewElector(ctx, client, "billing", gocronlock.Options{})
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// With a Locker, each run of a job goes to the scheduler that is first; with an
// Elector, all runs of all jobs go to the scheduler that leads. An Elector is
// stricter about the masters: see there. gocron cannot tell a running job that
// its lock or its leadership was lost. A job for which that matters should work
// under Elector.Context, or take a lock of its own with redlock.Client.Do,
// which passes it a context.
package gocronlock

import (
	"cmp"
	"time"

	"github.com/redmux/redmux/contrib/internal/turn"
	"github.com/redmux/redmux/redlock"
)

// Options configure a Locker or an Elector. The zero value works.
type Options struct {
	// Prefix precedes the names of jobs and, followed by "leader:", those of
	// elections. If zero, "gocron:". At most 953 bytes, without ":redlock:".
	Prefix string
	// TTL is how long a lock outlives a process that dies, and so the longest
	// time that the others then wait. A process that lives renews its lock,
	// however long its job runs. If zero, 30 s.
	TTL time.Duration
	// MinHold is the least time for which a job's lock is kept from the other
	// schedulers, counted from the start of the job, even if the job is over
	// sooner. It must be longer than the difference between the schedulers'
	// clocks plus the delay of their processes, or several of them run a short
	// job. It must be shorter than the interval between runs, or the next run
	// is left out. At most the TTL. If zero, half a second, or the TTL if that
	// is less; if negative, there is no minimum. An Elector ignores it.
	MinHold time.Duration
}

// hold applies the defaults and checks the options.
func (o *Options) hold() (redlock.HoldOptions, error) {
	o.Prefix = cmp.Or(o.Prefix, "gocron:")
	return turn.Options("gocronlock", o.Prefix, o.TTL, o.MinHold)
}
