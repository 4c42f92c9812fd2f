package faults

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// An operator does what docs/fencing.md asks of one: it resets the fence when
// so many servers lost their memory at a time that the others cannot make up
// for it. No fenced lock is granted before.
type operator struct {
	run    *run
	config redlock.Config
	client *redlock.Client // with Config.Fenced, to see when that is
	tries  int
}

// operate works as an operator until ctx ends.
func (r *run) operate(ctx context.Context) {
	o := &operator{run: r, config: r.fleet.config(r.fleet.unixURLs(), r.options.MaxTTL)}
	o.config.Logger = slog.New(slog.DiscardHandler)
	fenced := o.config
	fenced.Fenced = true
	var err error
	if o.client, err = redlock.New(ctx, fenced); err != nil {
		if ctx.Err() == nil {
			r.fail(err)
		}
		return
	}
	defer func() { _ = o.client.Close(context.Background()) }()
	for r.wait(ctx, operatorLook, false) {
		// Ready returns before a quorum counts only if waiting cannot help.
		if err := o.client.Ready(ctx); errors.Is(err, redlock.ErrNoFloor) && ctx.Err() == nil {
			o.reset(ctx)
		}
	}
}

const (
	operatorLook = 100 * time.Millisecond
	// operatorPatience bounds a reset. With all nodes there it takes a few
	// round trips.
	operatorPatience = time.Second
)

// reset resets the fence, which needs all nodes at one time. Every second try
// is made amid faults, and may fail for them. The others wait until no node is
// in quarantine, and hold the faults off.
func (o *operator) reset(ctx context.Context) {
	if o.tries%2 == 1 {
		quarantined := func(n redlock.NodeStatus) bool { return n.Quarantined }
		if slices.ContainsFunc(o.client.Nodes(), quarantined) || !o.run.limiter.enter(ctx, resetKind) {
			return
		}
		defer o.run.limiter.leave(resetKind)
	}
	o.tries++
	limited, cancel := context.WithTimeout(ctx, operatorPatience)
	defer cancel()
	// Clocks were set back, so what protected resources have seen is needed
	// too.
	done, err := admin.ResetFence(limited, o.config, o.run.judge.highestNumber())
	if err != nil {
		return
	}
	o.run.judge.reset(done.Floor)
	o.run.wait(ctx, operatorPatience, false) // until the clients have seen it
}

// resetKind is never drawn. It lets no fault begin while it is at work.
var resetKind = &Kind{Name: "fence-reset", About: "the fence is reset", Scope: OfFleet}
