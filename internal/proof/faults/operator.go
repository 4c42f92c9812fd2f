package faults

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redmux/redmux/redlock"
)

// operate does what docs/fencing.md asks of an operator: it resets the fence
// when so many servers lost their memory at a time that the others cannot make
// up for it. No fenced lock is granted before. Faults go on meanwhile, so a
// reset may fail, and is then tried again. It returns when ctx ends.
func (r *run) operate(ctx context.Context) {
	config := r.fleet.config(r.fleet.unixURLs(), r.options.MaxTTL)
	config.Logger = slog.New(slog.DiscardHandler)
	fenced := config
	fenced.Fenced = true
	c, err := redlock.New(ctx, fenced)
	if err != nil {
		if ctx.Err() == nil {
			r.fail(err)
		}
		return
	}
	defer func() { _ = c.Close(context.Background()) }()
	for r.wait(ctx, operatorLook, false) {
		// It returns before a quorum counts only if waiting cannot help.
		if err := c.Ready(ctx); !errors.Is(err, redlock.ErrNoFloor) || ctx.Err() != nil {
			continue
		}
		// Clocks were set back, so what protected resources have seen is
		// needed too.
		if done, err := redlock.ResetFence(ctx, config, r.judge.highestNumber()); err == nil {
			r.judge.reset(done.Floor)
		}
	}
}

// operatorLook is the time between two looks of the operator.
const operatorLook = 100 * time.Millisecond
