// Package gocronlock has jobs of several schedulers of github.com/go-co-op/gocron/v2 run once, by locks of package redlock.
// It does not import gocron, so that it costs no dependency: who uses it names gocron's interface.
//
//	locker, err := gocronlock.NewLocker[gocron.Lock](client, gocronlock.Options{MinHold: 5 * time.Second})
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
//	elector, err := gocronlock.NewElector(ctx, client, "billing", gocronlock.Options{})
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// With a Locker each run of a job goes to whichever scheduler is first; with an Elector all runs of all jobs go to the one
// that leads. gocron has no way to tell a job that its lock or its leadership was lost while it runs: a job for which that
// matters works under Elector.Context, or locks by itself with redlock.Client.Do, which gives it a context.
package gocronlock

import (
	"fmt"
	"time"

	"github.com/redmux/redmux/contrib/internal/resource"
	"github.com/redmux/redmux/redlock"
)

// Options say how locks are held. The zero value works.
type Options struct {
	// Prefix stands before the names of jobs, and, with leader: behind it, before those of elections. If zero, "gocron:". At
	// most 953 bytes.
	Prefix string
	// TTL is how long a lock outlives a process that dies, and so for how long the others then wait at most; a living one
	// renews it, however long its job runs. If zero, 30 s.
	TTL time.Duration
	// MinHold keeps the lock of a job from the other schedulers for so long from its beginning on, though the job be over
	// before: it must be longer than the schedulers' clocks are apart and their processes late, or a job that is short runs on
	// several of them, and shorter than the time from one run to the next, or that one is left out. At most the TTL. If zero,
	// half a second, or the TTL if that is less; below zero, none. It does not concern an Elector.
	MinHold time.Duration
}

const (
	defaultPrefix  = "gocron:"
	defaultTTL     = 30 * time.Second
	defaultMinHold = 500 * time.Millisecond
)

// hold fills in what the fields' comments promise.
func (o *Options) hold() (redlock.HoldOptions, error) {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if len(o.Prefix) > resource.LongestPrefix {
		return redlock.HoldOptions{}, fmt.Errorf("gocronlock: Prefix has more than %d bytes", resource.LongestPrefix)
	}
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.MinHold == 0 {
		o.MinHold = min(defaultMinHold, o.TTL)
	}
	if o.TTL <= 0 || o.MinHold > o.TTL {
		return redlock.HoldOptions{}, fmt.Errorf("gocronlock: TTL must be positive, and not shorter than MinHold")
	}
	return redlock.HoldOptions{TTL: o.TTL, MinHold: max(o.MinHold, 0)}, nil
}
