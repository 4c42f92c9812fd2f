package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// How much Run makes.
const (
	attempts   = 500 // whose callers give up
	repeats    = 5   // of each other fault
	each       = 10 * time.Second
	mostTime   = time.Minute
	restartTTL = 4 * time.Second // so that trials in which a lock is free only after its TTL take seconds
)

// Run makes all trials of the subjects whose names begin with only, one after
// the other, and prints what came of each.
func Run(ctx context.Context, out io.Writer, only string) error {
	for i := range Subjects {
		s := &Subjects[i]
		if !strings.HasPrefix(s.Name, only) {
			continue
		}
		several := s.Nodes > 1
		for _, trial := range []struct {
			name string
			made bool
			do   func() (any, error)
		}{
			{"the caller gives up", true, func() (any, error) { return Cancel(ctx, s, attempts, false, mostTime) }},
			{"the same, one master stopped", several, func() (any, error) { return Cancel(ctx, s, attempts, true, mostTime) }},
			{"one reply is lost", true, func() (any, error) { return Lose(ctx, s, repeats, restartTTL) }},
			{"one master hangs", several, func() (any, error) { return Stall(ctx, s, each) }},
			{"a master comes back empty", true, func() (any, error) { return Restart(ctx, s, repeats, restartTTL) }},
			{"a release arrives late", several, func() (any, error) { return Delay(ctx, s, repeats) }},
			{"extending what was lost", s.Extends, func() (any, error) { return Extend(ctx, s, repeats, repeats) }},
		} {
			if !trial.made {
				continue
			}
			result, err := trial.do()
			if err = errors.Join(err, ctx.Err()); err != nil {
				return fmt.Errorf("%s: %s: %w", s.Name, trial.name, err)
			}
			fmt.Fprintf(out, "%-18s %-29s %+v\n", s.Name, trial.name, result)
		}
	}
	return nil
}
