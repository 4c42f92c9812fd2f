package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/redlock"
	"github.com/stretchr/testify/require"
)

// At maxmemory, locks on several resources, fair ones and those of readers and
// writers do as plain ones do: new ones are refused, and those that are held
// are renewed and released (R25). A downgrade succeeds as well. Readers and
// waiters whose time is over must change nothing: if a script removed them
// first, the server would refuse none of its later writes.
func TestLocksAtMaxmemory_R25(t *testing.T) {
	f := newFleet(t, 1)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	ctx, second := context.Background(), redlock.HoldOptions{TTL: time.Second}
	rw := c.RW("r")
	holds := make(map[string]*redlock.Hold)
	add := func(kind string) func(*redlock.Hold, error) {
		return func(h *redlock.Hold, err error) {
			require.NoError(t, err, kind)
			holds[kind] = h
		}
	}
	add("plain")(c.Hold(ctx, "plain", second))
	add("several")(c.All("one", "two").Hold(ctx, second))
	add("fair")(c.Fair("fair").Hold(ctx, second))
	add("read")(rw.Read().Hold(ctx, second))
	add("write")(c.RW("w").Write().Hold(ctx, second))
	write, err := c.RW("turned").Write().TryAcquire(ctx, time.Minute)
	require.NoError(t, err)
	for _, name := range []string{"r", "turned", "lapsed"} {
		f.must(0, "ZADD", name+":redlock:readers", "1", "lapsed")
	}
	f.must(0, "ZADD", "lapsed:redlock:queue", "1", "lapsed")

	f.must(0, "CONFIG", "SET", "maxmemory", "1")
	time.Sleep(3 * time.Second)
	for kind, h := range holds {
		require.NoError(t, h.Err(), kind)
	}
	read, err := c.RW("turned").Downgrade(ctx, write, time.Minute)
	require.NoError(t, err)
	refused := func(what string, classes ...conn.Class) func(redlock.Lock, error) {
		return func(_ redlock.Lock, err error) {
			t.Helper()
			require.NoError(t, undecided(err, classIs(classes...), 0), what)
		}
	}
	refused("plain", conn.ClassOOM)(c.TryAcquire(ctx, "new", time.Second))
	// Before version 7, an error of a script has no class.
	for _, name := range []string{"new", "lapsed"} {
		script := refused(name, conn.ClassOOM, conn.ClassOther)
		script(c.All(name, name+" 2").TryAcquire(ctx, time.Second))
		script(c.Fair(name).TryAcquire(ctx, time.Second))
		script(c.RW(name).Read().TryAcquire(ctx, time.Second))
		script(c.RW(name).Write().TryAcquire(ctx, time.Second))
	}
	script := refused("beside a reader", conn.ClassOOM, conn.ClassOther)
	script(rw.Read().TryAcquire(ctx, time.Second))
	script(c.RW("turned").Upgrade(ctx, read, time.Second))
	_, err = rw.Write().TryAcquire(ctx, time.Second)
	require.ErrorIs(t, err, redlock.ErrHeld)

	require.NoError(t, read.Release(ctx))
	for kind, h := range holds {
		require.NoError(t, h.Release(ctx), kind)
	}
	f.must(0, "DEL", "lapsed:redlock:readers", "lapsed:redlock:queue", "fair:redlock:ticket") // of no TTL, and a long one
	f.noOrphans(unprompted)
}
