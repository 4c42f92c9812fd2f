package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

// A situation is a client whose calls fail.
type situation struct {
	client *Client
	ctx    context.Context
	name   string
	ttl    time.Duration
	// What was granted before, of this client.
	lock, several, read, write Lock
	hold                       *Hold
}

// callsOf are all calls that are for a resource, by name. Each returns its
// error.
func callsOf(s *situation) map[string]func() error {
	c, options := s.client, HoldOptions{TTL: s.ttl}
	both := []string{s.name, s.name + "-2"}
	fn := func(context.Context) error { return nil }
	calls := map[string]func() error{
		"TryAcquire":    func() error { _, err := c.TryAcquire(s.ctx, s.name, s.ttl); return err },
		"Acquire":       func() error { _, err := c.Acquire(s.ctx, s.name, s.ttl); return err },
		"TryHold":       func() error { _, err := c.Lock(s.name).TryHold(s.ctx, options); return err },
		"Hold":          func() error { _, err := c.Hold(s.ctx, s.name, options); return err },
		"Do":            func() error { return c.Do(s.ctx, s.name, s.ttl, fn) },
		"DoWith":        func() error { return c.Lock(s.name).DoWith(s.ctx, options, fn) },
		"TryAcquireAll": func() error { _, err := c.All(both...).TryAcquire(s.ctx, s.ttl); return err },
		"AcquireAll":    func() error { _, err := c.All(both...).Acquire(s.ctx, s.ttl); return err },
		"TryHoldAll":    func() error { _, err := c.All(both...).TryHold(s.ctx, options); return err },
		"HoldAll":       func() error { _, err := c.All(both...).Hold(s.ctx, options); return err },
		"DoAll":         func() error { return c.All(both...).DoWith(s.ctx, options, fn) },
		"twice":         func() error { _, err := c.All(s.name, s.name).TryAcquire(s.ctx, s.ttl); return err },
		"heal of two":   func() error { _, err := c.All(both...).Hold(s.ctx, HoldOptions{TTL: s.ttl, Heal: true}); return err },
		"reentrant": func() error {
			_, err := c.Hold(s.ctx, s.name, HoldOptions{TTL: s.ttl, Reentrant: true})
			return err
		},
		"Adopt":     func() error { _, err := c.Adopt(s.name, Token{1}, s.ttl, time.Time{}); return err },
		"Keep":      func() error { _, err := c.Keep(s.ctx, s.lock, options); return err },
		"Inspect":   func() error { _, err := Inspect(s.ctx, c, s.name); return err },
		"Extend":    func() error { _, err := s.lock.Extend(s.ctx, s.ttl); return err },
		"Release":   func() error { return s.lock.Release(s.ctx) },
		"all":       func() error { return s.several.Release(s.ctx) },
		"hold":      func() error { return s.hold.Release(s.ctx) },
		"Detach":    func() error { _, err := s.hold.Detach(); return err },
		"Upgrade":   func() error { _, err := c.RW(s.name).Upgrade(s.ctx, s.read, s.ttl); return err },
		"Downgrade": func() error { _, err := c.RW(s.name).Downgrade(s.ctx, s.write, s.ttl); return err },
		"another's": func() error { _, err := c.RW(s.name).Downgrade(s.ctx, s.read, s.ttl); return err },
		"Run":       func() error { return Run(s.ctx, c, s.name, s.ttl, fn) },
		"StepDown":  func() error { return StepDown(s.ctx, c, "resource-e", time.Second) },
		"Leader":    func() error { return Leader(s.ctx, c, s.name) },
		"no permits": func() error {
			_, err := c.Semaphore(s.name, 0).TryAcquire(s.ctx, s.ttl)
			return err
		},
	}
	for kind, k := range map[string]Locker{
		"read": c.RW(s.name).Read(), "write": c.RW(s.name).Write(), "permit": c.Semaphore(s.name, 1), "fair": c.Fair(s.name),
	} {
		calls[kind+" TryAcquire"] = func() error { _, err := k.TryAcquire(s.ctx, s.ttl); return err }
		calls[kind+" Acquire"] = func() error { _, err := k.Acquire(s.ctx, s.ttl); return err }
		calls[kind+" TryHold"] = func() error { _, err := k.TryHold(s.ctx, options); return err }
		calls[kind+" Hold"] = func() error { _, err := k.Hold(s.ctx, options); return err }
		calls[kind+" heal"] = func() error { _, err := k.Hold(s.ctx, HoldOptions{TTL: s.ttl, Heal: true}); return err }
		calls[kind+" TryHold heal"] = func() error { _, err := k.TryHold(s.ctx, HoldOptions{TTL: s.ttl, Heal: true}); return err }
		calls[kind+" DoWith"] = func() error { return k.DoWith(s.ctx, options, fn) }
	}
	return calls
}

// Every error of a call for a resource names it, whatever went wrong, and is
// still found by errors.Is. ErrHeld from TryAcquire alone is bare: it costs no
// allocation (R12).
func TestEveryErrorOfACallNamesItsResource_R12(t *testing.T) {
	for why, c := range map[string]struct {
		config  Config
		arrange func(t *testing.T, m *memory, s *situation)
		is      error // of most calls
	}{
		"closed": {Config{}, func(t *testing.T, _ *memory, s *situation) { closeNow(t, s.client) }, ErrClosed},
		"drained": {Config{}, func(t *testing.T, _ *memory, s *situation) {
			require.NoError(t, s.hold.Release(t.Context()))
			require.NoError(t, s.client.Drain(t.Context()))
		}, ErrClosed},
		"cancelled": {Config{}, func(t *testing.T, _ *memory, s *situation) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			s.ctx = ctx
		}, context.Canceled},
		"held by another": {Config{Retry: Retry{Tries: 1}}, func(t *testing.T, m *memory, s *situation) {
			s.name = "held"
			heldByAnother(t, m, s.name)
		}, ErrHeld},
		"waits in vain": {Config{MaxWait: 50 * ms}, func(t *testing.T, m *memory, s *situation) {
			s.name = "held"
			heldByAnother(t, m, s.name)
		}, ErrHeld},
		"no quorum": {Config{Retry: Retry{FailFast: true}, NodeTimeout: 20 * ms}, func(t *testing.T, m *memory, _ *situation) {
			for _, n := range m.nodes {
				n.Pause()
			}
		}, ErrNoQuorum},
		"no TTL":                     {Config{}, func(_ *testing.T, _ *memory, s *situation) { s.ttl = -1 }, ErrTTL},
		"too long a TTL":             {Config{}, func(_ *testing.T, _ *memory, s *situation) { s.ttl = time.Hour }, ErrTTL},
		"a name of the client's own": {Config{}, func(_ *testing.T, _ *memory, s *situation) { s.name = "resource:redlock:readers" }, ErrResource},
		"the name of a seal":         {Config{}, func(_ *testing.T, _ *memory, s *situation) { s.name = wire.SealName }, ErrResource},
		"lost": {Config{}, func(t *testing.T, m *memory, s *situation) {
			for _, n := range m.nodes {
				for _, key := range n.Keys() {
					if strings.Contains(key, "resource") {
						n.DB().Delete(key)
					}
				}
			}
			time.Sleep(20 * time.Second)
		}, nil},
		"nested": {Config{}, func(_ *testing.T, _ *memory, s *situation) { s.ctx, s.name = s.hold.Context(), "resource-held" }, nil},
		"overloaded": {Config{Retry: Retry{FailFast: true, Tries: 1}}, func(t *testing.T, m *memory, s *situation) {
			crowd(t, m, s.client)
		}, ErrOverloaded},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(t, 3)
				c.config.Fenced, c.config.Owner, c.config.MaxTTL = true, "web-1", time.Minute
				s := prepared(t, m, m.opened(t, c.config))
				c.arrange(t, m, s)
				errs, met := 0, 0
				outer := s.ctx
				for call, do := range callsOf(s) {
					var cancel context.CancelFunc
					s.ctx, cancel = context.WithTimeout(outer, 3*time.Second)
					err := do()
					cancel()
					if err == nil || call == "TryAcquire" && err == ErrHeld {
						continue
					}
					errs++
					if c.is != nil && errors.Is(err, c.is) {
						met++
					}
					named, lost := (*ResourceError)(nil), (*LostError)(nil)
					if errors.As(err, &lost) {
						require.Contains(t, err.Error(), quoted(lost.Resource))
						continue
					}
					require.ErrorAs(t, err, &named, "%s: %v", call, err)
					require.True(t, strings.HasPrefix(named.Resource, s.name) || strings.HasPrefix(named.Resource, "resource"), "%s: %v", call, err)
					require.Contains(t, err.Error(), quoted(named.Resource), call)
					require.Equal(t, 1, strings.Count(err.Error(), "redlock: "), "%s: %v", call, err)
				}
				t.Log(errs, "errors, of them", met, "are", c.is)
				require.Greater(t, errs, 5)
				if c.is != nil {
					require.Greater(t, met, 5, "%v", c.is)
				}
			})
		})
	}
}

// prepared returns a situation with a lock of each kind.
func prepared(t *testing.T, m *memory, c *Client) *situation {
	t.Helper()
	s := &situation{client: c, ctx: t.Context(), name: "resource", ttl: 10 * time.Second}
	var err error
	s.lock, err = c.TryAcquire(t.Context(), "resource", s.ttl)
	require.NoError(t, err)
	s.several, err = c.All("resource-a", "resource-b").TryAcquire(t.Context(), s.ttl)
	require.NoError(t, err)
	s.hold, err = c.Lock("resource-held").TryHold(t.Context(), HoldOptions{TTL: s.ttl})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.hold.Release(context.Background()) })
	rw := c.RW("resource-rw")
	s.read, err = rw.Read().TryAcquire(t.Context(), s.ttl)
	require.NoError(t, err)
	s.write, err = c.RW("resource-w").Write().TryAcquire(t.Context(), s.ttl)
	require.NoError(t, err)
	return s
}

// heldByAnother makes another client hold a resource, in every way.
func heldByAnother(t *testing.T, m *memory, name string) {
	t.Helper()
	other := m.opened(t, Config{MaxTTL: time.Minute})
	mustAcquire(t, other, name, time.Minute)
	_, err := other.Semaphore(name, 1).TryAcquire(t.Context(), time.Minute)
	require.NoError(t, err)
}

// crowd replaces the client's group by one that takes one command at a time,
// and makes it wait.
func crowd(t *testing.T, m *memory, c *Client) {
	t.Helper()
	group, err := c.groupConfig()
	require.NoError(t, err)
	closeNow(t, c)
	c.refused = make(chan struct{})
	c.refusing.Store(false)
	c.group, err = multiplex.New(multiplex.Config{
		Nodes: group.Nodes, MaxPending: 1, ShedAfter: time.Hour, VoteTimeout: time.Hour, Cure: wire.Cure(wire.Scripts(c.config.Fenced)),
	})
	require.NoError(t, err)
	require.NoError(t, c.Ready(t.Context()))
	for _, n := range m.nodes {
		n.Pause()
	}
	gone, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		for _, n := range m.nodes {
			n.Resume()
		}
		cancel()
		closeNow(t, c)
	})
	go func() { _, _ = c.TryAcquire(gone, "first", time.Minute) }()
	synctest.Wait()
}
