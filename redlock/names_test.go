package redlock

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/stretchr/testify/require"
)

// live takes all kinds of locks with this name through their life: granted,
// extended, waited for, upgraded, downgraded and released.
func live(t *testing.T, c *Client, name string) {
	t.Helper()
	rw := c.RW(name)
	for _, k := range []Locker{rw.Read(), rw.Write(), c.Semaphore(name, 1), c.Fair(name)} {
		lock, err := k.TryAcquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		lock, err = lock.Extend(t.Context(), 20*time.Second)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		waiter := k
		if kind.IsReader(lock.kind) {
			waiter = rw.Write()
		}
		_, err = waiter.Acquire(ctx, time.Second)
		cancel()
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, lock.Release(t.Context()))
		time.Sleep(3 * time.Second) // until no mark and no lease is left
		granted, err := k.Acquire(t.Context(), time.Second)
		require.NoError(t, err)
		require.NoError(t, granted.Release(t.Context()))
	}
	read, err := rw.Read().Acquire(t.Context(), time.Minute)
	require.NoError(t, err)
	write, err := rw.Upgrade(t.Context(), read, time.Minute)
	require.NoError(t, err)
	require.NoError(t, read.Release(t.Context()))
	read, err = rw.Downgrade(t.Context(), write, time.Minute)
	require.NoError(t, err)
	require.NoError(t, read.Release(t.Context()))
}

// What a lock keeps beside its key is never another lock's key: a plain lock
// whose name begins like that of a lock of any kind neither is in its way nor
// is overwritten or deleted by it.
func TestKindsLeaveTheLocksOfOtherNamesAlone(t *testing.T) {
	for _, end := range []string{
		":mark", ":readers", ":permits", ":queue", ":ticket", ":turn", ":queue:" + strings.Repeat("w", pure.TokenText),
		":redlock", "#0:mark",
	} {
		t.Run(end, func(t *testing.T) {
			simulated(t, anyNumber, func(t *testing.T, m *memory) {
				a, b := m.client(t, Config{}), m.client(t, Config{})
				lock := mustAcquire(t, a, "x"+end, time.Hour)
				live(t, b, "x")
				for _, n := range m.nodes {
					value, _ := n.DB().Get("x" + end)
					require.Equal(t, secretOf(lock.grant.Token), tokenIn(value))
				}
				_, err := b.TryAcquire(t.Context(), "x"+end, time.Minute)
				require.ErrorIs(t, err, ErrHeld)
				require.NoError(t, lock.Release(t.Context()))
			})
		})
	}
}

// No kind of lock takes a name in which keys of another lock are kept, and all
// take each other name.
func TestNamesOfKeysBesideALock(t *testing.T) {
	simulated(t, 1, func(t *testing.T, m *memory) {
		for _, c := range []*Client{m.opened(t, Config{MaxTTL: time.Hour}), m.opened(t, Config{MaxTTL: time.Hour, Fenced: true})} {
			for name, refused := range map[string]bool{
				"x:redlock:mark": true, "x:redlock:queue:w": true, "x:redlock:": true, ":redlock:x": true, "a:redlock:b:c": true,
				"redlock:seal": true, "redlock:opening": true, "redlock:fence": true, "": true, strings.Repeat("k", 1025): true,
				"x:redlock": false, "redlock:x": false, "x:mark": false, "x:turn": false, "x:REDLOCK:mark": false,
				strings.Repeat("k", 1024): false,
				"x:fence":                 c.config.Fenced, "x:fence:y": false,
			} {
				var errs []error
				try := func(_ Lock, err error) { errs = append(errs, err) }
				try(c.TryAcquire(t.Context(), name, time.Minute))
				try(c.All(name, "y").TryAcquire(t.Context(), time.Minute))
				try(c.Adopt(name, Token{1}, time.Minute, time.Now().Add(time.Minute)))
				for _, k := range []Locker{c.RW(name).Read(), c.RW(name).Write(), c.Semaphore(name, 1), c.Fair(name)} {
					try(k.TryAcquire(t.Context(), time.Minute))
					_, err := k.TryHold(t.Context(), HoldOptions{TTL: time.Minute})
					errs = append(errs, err)
				}
				for i, err := range errs {
					if refused {
						require.ErrorIs(t, err, ErrResource, "%d, %.30q", i, name)
						continue
					}
					require.NotErrorIs(t, err, ErrResource, "%d, %.30q", i, name)
				}
				if strings.Contains(name, ":redlock:") {
					require.ErrorContains(t, errs[0], `":redlock:"`)
				}
				time.Sleep(2 * time.Minute)
			}
		}
	})
}

// Every key that a lock has is its name, a permit, its fencing number, or has
// the infix that no name has. The longest name has them all, too.
func TestKeysOfAllKinds(t *testing.T) {
	const prefix = "app:"
	waiter := regexp.MustCompile(`[\w-]{27}$`)
	names := map[string]*regexp.Regexp{}
	for _, name := range []string{"r", "x:redlock", strings.Repeat("k", maxResource)} {
		names[name] = regexp.MustCompile(`^` + prefix + name + `(#\d+|:fence|:redlock:(mark|readers|permits|wanted|queue|ticket|turn)|:redlock:queue:[\w-]{27})?$`)
	}
	for name, is := range names {
		simulated(t, 1, func(t *testing.T, m *memory) {
			seen := map[string]bool{}
			m.nodes[0].Handle(func(int, []string) ([]byte, bool) {
				for _, key := range m.nodes[0].Keys() {
					seen[key] = true
				}
				return nil, false
			})
			c := m.opened(t, Config{Prefix: prefix, Fenced: true, MaxTTL: time.Hour})
			lock := mustAcquire(t, c, name, time.Minute)
			require.NoError(t, lock.Release(t.Context()))
			live(t, c, name)
			_, err := Inspect(t.Context(), c, name)
			require.NoError(t, err)
			kinds := map[string]bool{}
			for key := range seen {
				if strings.HasPrefix(key, prefix+"redlock:") {
					continue // the node's own
				}
				require.Regexp(t, is, key)
				kinds[waiter.ReplaceAllString(strings.TrimPrefix(key, prefix+name), "")] = true
			}
			require.Equal(t, map[string]bool{
				"": true, ":fence": true, "#0": true, ":redlock:readers": true, ":redlock:mark": true, ":redlock:permits": true, ":redlock:wanted": true,
				":redlock:ticket": true, ":redlock:turn": true, ":redlock:queue": true, ":redlock:queue:": true,
			}, kinds)
		})
	}
}
