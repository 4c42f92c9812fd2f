package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/redmux/redmux/redlock"
)

// Restarted is what came of a master that was killed and came back empty while
// its vote was one of just a quorum.
type Restarted struct {
	Trials int
	// Second is in how many of them a second client was granted the lock while
	// the first held it, and Left how much of the first's validity was left
	// then, at most.
	Second int
	Left   time.Duration
	// Free is how long after the end of the first's validity another got the
	// lock, where no second holder came before.
	Free Spread
}

// Restart grants a lock by just a quorum, kills one of the masters that granted
// it (SIGKILL), has it come back empty, and lets two others try: a client that
// was there before, and one that is opened afterwards.
func Restart(ctx context.Context, s *Subject, trials int, ttl time.Duration) (Restarted, error) {
	f, err := newField(ctx, s, 2)
	if err != nil {
		return Restarted{}, err
	}
	defer f.close()
	var result Restarted
	var free []time.Duration
	for i := range trials {
		left, late, err := f.restartOnce(ctx, s, fmt.Sprint("restarted-", i), ttl)
		if err != nil {
			return Restarted{}, err
		}
		result.Trials++
		if left > 0 {
			result.Second++
			result.Left = max(result.Left, left)
		} else {
			free = append(free, late)
		}
	}
	result.Free = SpreadOf(free)
	return result, nil
}

// restartOnce is one trial. left is how much of the first's validity was left
// when another was granted the lock, or late how long after its end that was.
func (f *field) restartOnce(ctx context.Context, s *Subject, resource string, ttl time.Duration) (left, late time.Duration, err error) {
	quorum := len(f.servers)/2 + 1
	rest := make([]int, 0, len(f.servers)-quorum)
	for i := quorum; i < len(f.servers); i++ {
		rest = append(rest, i)
	}
	if err := f.occupy(resource, rest...); err != nil {
		return 0, 0, err
	}
	lock, err := persist(ctx, f.clients[0], resource, ttl)
	if err != nil {
		return 0, 0, err
	}
	if err := f.vacate(resource, rest...); err != nil {
		return 0, 0, err
	}
	decider := f.servers[quorum-1]
	if err := decider.Kill(); err != nil {
		return 0, 0, err
	}
	if err := decider.Restart(); err != nil {
		return 0, 0, err
	}
	fresh, err := s.open(f.urls)
	if err != nil {
		return 0, 0, err
	}
	defer fresh.Close()
	for time.Until(lock.Until()) > -5*ttl {
		for _, c := range []Client{f.clients[1], fresh} {
			other, err := c.TryAcquire(ctx, resource, ttl)
			left := time.Until(lock.Until())
			if err == nil {
				_ = other.Release(ctx) // how well it releases is another question
				return max(left, 0), max(-left, 0), nil
			}
		}
		if ctx.Err() != nil {
			return 0, 0, ctx.Err()
		}
		time.Sleep(2 * time.Millisecond)
	}
	return 0, 0, fmt.Errorf("trial: no other client was granted the lock within %v after its end", 5*ttl)
}

// persist tries until a lock is granted: where the master of the trial before
// is quarantined, that takes up to MaxTTL.
func persist(ctx context.Context, c Client, resource string, ttl time.Duration) (Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*ttl+2*redlock.DefaultMaxTTL)
	defer cancel()
	for {
		lock, err := c.TryAcquire(ctx, resource, ttl)
		if err == nil {
			return lock, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("trial: the lock could not be acquired: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
