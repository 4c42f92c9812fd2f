package trial

import (
	"context"
	"fmt"
	"time"
)

// Extended is what a holder learns when it extends and releases a lost lock.
type Extended struct {
	Trials int
	// SaidHeld is in how many the extension of a lost lock was reported as a
	// success, SaidReleased its release.
	SaidHeld, SaidReleased int
	// Disturbed is in how many a key of the new holder had changed afterwards.
	Disturbed int
	// Learned is how long an extension took to fail while a majority of the
	// masters was stopped.
	Learned Spread
	// SaidExtended is how many of those were reported as a success.
	SaidExtended int
}

// Extend lets a lock expire, another client acquire it, and the first extend
// and release it. Then it stops a majority of the masters for a while and
// extends a lock that is held.
func Extend(ctx context.Context, s *Subject, trials, stops int) (Extended, error) {
	f, err := newField(ctx, s, 2)
	if err != nil {
		return Extended{}, err
	}
	defer f.close()
	var result Extended
	for i := range trials {
		if err := f.extendLost(ctx, f.clients[0], f.clients[1], fmt.Sprint("extended-", i), &result); err != nil {
			return Extended{}, err
		}
	}
	var learned []time.Duration
	for i := range stops {
		took, err := f.extendStopped(ctx, f.clients[0], fmt.Sprint("stopped-", i), &result)
		if err != nil {
			return Extended{}, err
		}
		learned = append(learned, took)
	}
	result.Learned = SpreadOf(learned)
	return result, nil
}

func (f *field) extendLost(ctx context.Context, loser, winner Client, resource string, result *Extended) error {
	const ttl = 300 * time.Millisecond
	lost, err := persist(ctx, loser, resource, ttl)
	if err != nil {
		return err
	}
	time.Sleep(time.Until(lost.Until()) + 50*time.Millisecond)
	if _, err := persist(ctx, winner, resource, mostTTL); err != nil {
		return err
	}
	before := f.taken(resource)
	result.Trials++
	if lost.Extend(ctx, ttl) == nil {
		result.SaidHeld++
	}
	if lost.Release(ctx) == nil {
		result.SaidReleased++
	}
	if disturbed(before, f.values(resource)) {
		result.Disturbed++
	}
	return nil
}

// taken returns what a resource holds on each server when all have it from the
// same holder. An implementation that returns at the quorum lets the rest
// follow. Some never ask the rest again, so the wait is bounded.
func (f *field) taken(resource string) []string {
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		values := f.values(resource)
		alike := values[0] != absent && count(values, values[0]) == len(values)
		if alike || time.Since(begun) > mostTTL/5 {
			return values
		}
	}
}

// disturbed reports whether a key of the holder has changed. The holder has
// most of the keys. A key of another that expires, and one of the holder that
// comes late, are no disturbance.
func disturbed(before, after []string) bool {
	holder, most := "", 0
	for _, v := range before {
		if n := count(before, v); v != absent && n > most {
			holder, most = v, n
		}
	}
	for i, v := range before {
		if v == holder && after[i] != holder {
			return true
		}
	}
	return false
}

func count(values []string, value string) (n int) {
	for _, v := range values {
		if v == value {
			n++
		}
	}
	return n
}

// extendStopped returns how long an extension takes while a majority is
// stopped, for 8 s at most.
func (f *field) extendStopped(ctx context.Context, c Client, resource string, result *Extended) (time.Duration, error) {
	const ttl = 2 * time.Second
	lock, err := persist(ctx, c, resource, ttl)
	if err != nil {
		return 0, err
	}
	quorum := len(f.servers)/2 + 1
	for _, s := range f.servers[:quorum] {
		if err := s.Stop(); err != nil {
			return 0, err
		}
	}
	goOn := func() {
		for _, s := range f.servers[:quorum] {
			_ = s.Continue()
		}
	}
	defer goOn()
	timer := time.AfterFunc(8*time.Second, goOn)
	defer timer.Stop()
	start := time.Now()
	if lock.Extend(ctx, ttl) == nil {
		result.SaidExtended++
	}
	return time.Since(start), nil
}
