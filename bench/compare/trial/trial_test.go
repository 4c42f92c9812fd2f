package trial

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	goredislib "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

const testTTL = time.Second

// Ours survives each fault. docs/internals/peers.md has how others do.
func TestOurs_R7_R8_R9_R10_R23(t *testing.T) {
	redistest.Require(t)
	s := &Subjects[0]
	require.True(t, s.Ours)
	for _, stopped := range []bool{false, true} {
		atBest(t, func() error {
			c, err := Cancel(t.Context(), s, 100, stopped, mostTTL)
			if err != nil {
				return err
			}
			assert.Zero(t, c.Left, "keys were left behind (R7)")
			if c.Attempts != 100 || c.Took > mostTTL/4 { // so that no key has run out when they are counted
				return fmt.Errorf("%d attempts took %v, though each gave up within 2 ms", c.Attempts, c.Took)
			}
			return nil
		})
	}
	atBest(t, func() error {
		stalled, err := Stall(t.Context(), s, time.Second)
		if err != nil {
			return err
		}
		switch {
		case stalled.Stopped.Count <= 20*stalled.Failed:
			return errors.New("a busy machine may cost a vote or two, a stopped master none")
		case stalled.StoppedRate <= stalled.HealthyRate/4:
			return errors.New("one stopped master slows everybody (R5, R26)")
		}
		return nil
	})
	atBest(t, func() error {
		restarted, err := Restart(t.Context(), s, 1, testTTL)
		assert.Zero(t, restarted.Second, "two holders (R23)")
		return err
	})
	atBest(t, func() error {
		delayed, err := Delay(t.Context(), s, 1)
		if err != nil {
			return err
		}
		assert.Equal(t, Delayed{Trials: 1, Granted: 1}, delayed, "granted, and to one (R3, R8)")
		return nil
	})
	atBest(t, func() error {
		lost, err := Lose(t.Context(), s, 1, testTTL)
		if err != nil {
			return err
		}
		lost.Next = Spread{}
		return differs(Lost{Trials: 1}, lost) // the failed try leaves nothing, and does not call itself another (R7, R12, R16)
	})
	atBest(t, func() error {
		extended, err := Extend(t.Context(), s, 2, 1)
		if err != nil {
			return err
		}
		assert.Zero(t, extended.SaidHeld+extended.SaidReleased+extended.SaidExtended+extended.Disturbed, "R9, R10: %+v", extended)
		if extended.Learned.Max >= time.Second {
			return fmt.Errorf("R10: %+v", extended)
		}
		return nil
	})
}

// atBest passes if one trial of five holds, since a busy machine may spoil one:
// a lock for the trial itself may not be granted in time. None begins after a
// minute, since one that fails may take minutes.
func atBest(t *testing.T, trial func() error) {
	t.Helper()
	var err error
	start := time.Now()
	for try := 0; try == 0 || try < 5 && time.Since(start) < time.Minute; try++ {
		if err = trial(); err == nil {
			return
		}
		t.Logf("again: %v", err)
	}
	t.Error(err)
}

// The trials find faults: an implementation that does as little as possible
// fails each of them.
func TestTheTrialsSeeTheFaults(t *testing.T) {
	redistest.Require(t)
	s := &Subject{Name: "naive", Nodes: 5, Extends: true, open: openNaive}
	atBest(t, func() error {
		c, err := Cancel(t.Context(), s, 100, false, mostTTL)
		if err != nil {
			return err
		}
		if c.GaveUp == 0 || c.Left == 0 {
			return fmt.Errorf("nobody gave up, or nothing was left behind: %+v", c)
		}
		return nil
	})
	atBest(t, func() error {
		restarted, err := Restart(t.Context(), s, 1, 20*testTTL) // a master that starts late on a busy machine is still in time
		if err != nil {
			return err
		}
		return differs(1, restarted.Second)
	})
	atBest(t, func() error {
		delayed, err := Delay(t.Context(), s, 1)
		if err != nil {
			return err
		}
		return differs(Delayed{Trials: 1, Granted: 1, Second: 1}, delayed)
	})
	for _, l := range []struct {
		subject Subject
		want    Lost
	}{
		{Subject{Nodes: 1, open: openNaive}, Lost{Trials: 1, Resent: 1}}, // it releases what it was refused
		{Subject{Nodes: 1, open: openCareless}, Lost{Trials: 1, Resent: 1, SaidHeld: 1, Left: 1}},
	} {
		atBest(t, func() error {
			lost, err := Lose(t.Context(), &l.subject, 1, 2*testTTL)
			if err != nil {
				return err
			}
			if late := lost.Next.Max > testTTL; late != (l.want.Left > 0) {
				return fmt.Errorf("the next client got the lock after %v", lost.Next.Max)
			}
			lost.Next = Spread{}
			return differs(l.want, lost)
		})
	}
	atBest(t, func() error {
		extended, err := Extend(t.Context(), s, 1, 0)
		if err != nil {
			return err
		}
		return differs(Extended{Trials: 1, SaidHeld: 1, SaidReleased: 1, Disturbed: 1}, extended)
	})
}

// Which changes are a disturbance of the holder's keys.
func TestDisturbed(t *testing.T) {
	for _, tt := range []struct {
		before, after []string
		want          bool
	}{
		{[]string{"a", "a", "a"}, []string{"a", "a", "a"}, false},
		{[]string{"a", "a", "a"}, []string{"a", absent, "a"}, true},
		{[]string{"a", "a", "a"}, []string{"a", "a", "b"}, true},
		{[]string{"a", "a", absent}, []string{"a", "a", "a"}, false},
		{[]string{"b", "a", "a"}, []string{absent, "a", "a"}, false},
		{[]string{absent, absent, "a"}, []string{absent, absent, absent}, true},
		{[]string{absent, absent}, []string{absent, absent}, false},
	} {
		assert.Equal(t, tt.want, disturbed(tt.before, tt.after), "%v, then %v", tt.before, tt.after)
	}
}

// differs returns an error if two values differ.
func differs[V comparable](want, got V) error {
	if want != got {
		return fmt.Errorf("%+v, but %+v was to be", got, want)
	}
	return nil
}

// naive asks one master after the other, with one token for all attempts of a
// call, and compares nothing.
type naive struct{ clients []*goredislib.Client }

type naiveLock struct {
	naive
	resource string
	until    time.Time
}

func openNaive(urls []string) (Client, error) {
	var c naive
	for _, url := range urls {
		options, err := goredislib.ParseURL(url)
		if err != nil {
			return nil, err
		}
		options.ReadTimeout, options.ContextTimeoutEnabled = 100*time.Millisecond, true
		c.clients = append(c.clients, goredislib.NewClient(options))
	}
	return c, nil
}

var errTaken = errors.New("taken")

func (c naive) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	start, granted := time.Now(), 0
	for _, client := range c.clients {
		if ok, err := client.SetNX(ctx, resource, "the token", ttl).Result(); err == nil && ok {
			granted++
		}
	}
	l := naiveLock{c, resource, start.Add(ttl)}
	if granted <= len(c.clients)/2 {
		_ = l.Release(ctx)
		return nil, errTaken
	}
	return l, nil
}

// careless releases nothing when it was refused.
type careless struct{ naive }

func openCareless(urls []string) (Client, error) {
	c, err := openNaive(urls)
	return careless{c.(naive)}, err
}

func (c careless) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	start := time.Now()
	if ok, err := c.clients[0].SetNX(ctx, resource, "the token", ttl).Result(); err != nil || !ok {
		return nil, errors.Join(err, redlock.ErrHeld)
	}
	return naiveLock{c.naive, resource, start.Add(ttl)}, nil
}

func (c naive) Acquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	for ctx.Err() == nil {
		if l, err := c.TryAcquire(ctx, resource, ttl); err == nil {
			return l, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, ctx.Err()
}

func (c naive) Close() {
	for _, client := range c.clients {
		_ = client.Close()
	}
}

func (l naiveLock) Until() time.Time { return l.until }

func (l naiveLock) Extend(ctx context.Context, ttl time.Duration) error {
	for _, client := range l.clients {
		_ = client.PExpire(ctx, l.resource, ttl).Err()
	}
	return nil
}

// Release deletes its token by a script, as all do. All keys have the same
// token.
func (l naiveLock) Release(ctx context.Context) error {
	const script = `if redis.call("GET",KEYS[1])==ARGV[1] then return redis.call("DEL",KEYS[1]) else return 0 end`
	for _, client := range l.clients {
		_ = client.Eval(ctx, script, []string{l.resource}, "the token").Err()
	}
	return nil
}
