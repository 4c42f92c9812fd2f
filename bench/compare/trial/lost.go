package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redmux/redmux/redlock"
)

// Lost is the result of a reply to an acquisition that was lost, on a master
// that had granted it.
type Lost struct {
	Trials int
	// Granted is in how many the one try was granted all the same.
	Granted int
	// Resent is in how many the command was sent again. It carried the same
	// token, so its own key refused it.
	Resent int
	// SaidHeld is in how many the try ended with the answer that the resource is
	// held. No other client had it on any master.
	SaidHeld int
	// Left is in how many the master still had the key of the failed try after
	// 100 ms, so that it would refuse every client until the TTL ends.
	Left int
	// Next is how long after a failed try another client got the lock.
	Next Spread
}

// Lose lets a client make one try, with just a quorum of masters left (SIGKILL).
// One of them executes the command, and its reply is lost with the connection.
// Then another client tries, until it gets the lock.
func Lose(ctx context.Context, s *Subject, trials int, ttl time.Duration) (Lost, error) {
	f, err := newField(ctx, s, 0)
	if err != nil {
		return Lost{}, err
	}
	defer f.close()
	for _, server := range f.servers[len(f.servers)/2+1:] {
		if err := server.Kill(); err != nil {
			return Lost{}, err
		}
	}
	var result Lost
	var next []time.Duration
	for i := range trials {
		took, err := f.loseOnce(ctx, s, fmt.Sprint("lost-", i), ttl, &result)
		if err != nil {
			return Lost{}, err
		}
		if took > 0 {
			next = append(next, took)
		}
	}
	result.Next = SpreadOf(next)
	return result, nil
}

// loseOnce returns how long the other client took, or 0 if the try was granted.
func (f *field) loseOnce(ctx context.Context, s *Subject, resource string, ttl time.Duration, result *Lost) (time.Duration, error) {
	c, err := newCut(f.servers[0].TCPAddr(), resource)
	if err != nil {
		return 0, err
	}
	defer c.close()
	first, err := s.ready(ctx, append([]string{"redis://" + c.addr()}, f.urls[1:]...))
	if err != nil {
		return 0, err
	}
	defer first.Close()
	other, err := s.ready(ctx, f.urls)
	if err != nil {
		return 0, err
	}
	defer other.Close()
	lock, err := first.TryAcquire(ctx, resource, ttl)
	if !c.lost.Load() {
		return 0, errors.New("trial: no command named the resource")
	}
	result.Trials++
	if c.resent.Load() {
		result.Resent++
	}
	if err == nil {
		result.Granted++
		return 0, lock.Release(ctx)
	}
	if errors.Is(err, redlock.ErrHeld) {
		result.SaidHeld++
	}
	return f.after(ctx, other, resource, ttl, result)
}

// after looks at the key that the failed try left, and lets another client take
// the lock.
func (f *field) after(ctx context.Context, other Client, resource string, ttl time.Duration, result *Lost) (time.Duration, error) {
	failed := time.Now()
	time.Sleep(100 * time.Millisecond)
	if f.values(resource)[0] != absent {
		result.Left++
	}
	lock, err := persist(ctx, other, resource, ttl)
	if err != nil {
		return 0, err
	}
	return time.Since(failed), lock.Release(ctx)
}
