package main

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// A port is what a program that comes from Redisson writes instead: against
// three masters, with a client of its own and another one beside it.
type port struct {
	*testing.T
	nodes       string // the flag that names the masters
	urls        []string
	mine, other *redlock.Client
}

// with returns a further client.
func (p *port) with(config redlock.Config) *redlock.Client {
	p.Helper()
	config.Nodes, config.MaxTTL, config.NodeTimeout = redlock.Nodes(p.urls...), longest, patience
	c, err := redlock.New(p.Context(), config)
	require.NoError(p, err)
	p.Cleanup(func() { shut(c) })
	return c
}

func (p *port) ok(lock redlock.Lock, err error) redlock.Lock {
	p.Helper()
	require.NoError(p, err)
	require.Positive(p, lock.Validity())
	return lock
}

func (p *port) held(_ redlock.Lock, err error) {
	p.Helper()
	require.ErrorIs(p, err, redlock.ErrHeld)
}

// within returns a context that ends early.
func (p *port) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(p.Context(), d)
	p.Cleanup(cancel)
	return ctx
}

// redissonPorts has the counterpart of each row of the table in
// docs/migrating.md, by its first cell. nil is for rows that say that there is
// none. Every counterpart locks the resource "r".
var redissonPorts = map[string]func(p *port){
	"`redisson.getLock(name)`": func(p *port) {
		p.ok(p.mine.TryAcquire(p.Context(), "r", time.Minute))
	},
	"`lock.lock()`, `lockWatchdogTimeout`": func(p *port) {
		const ttl = 3 * time.Second
		hold, err := p.mine.Hold(p.Context(), "r", redlock.HoldOptions{TTL: ttl})
		require.NoError(p, err)
		first := hold.Until()
		eventually(p.T, "a renewal", func() bool { return hold.Until().After(first) })
		p.held(p.other.TryAcquire(p.Context(), "r", ttl))
		require.NoError(p, hold.Release(p.Context()))
		require.Error(p, hold.Context().Err())
		require.NoError(p, p.other.Do(p.Context(), "r", ttl, func(ctx context.Context) error { return ctx.Err() }))
	},
	"`lock.lock(10, SECONDS)`": func(p *port) {
		lock := p.ok(p.mine.Acquire(p.Context(), "r", time.Second))
		p.ok(p.other.Acquire(p.Context(), "r", time.Minute)) // waits for the end of the TTL
		require.Negative(p, lock.Validity())
	},
	"`lock.tryLock()`": func(p *port) {
		p.ok(p.mine.TryAcquire(p.Context(), "r", time.Minute))
		p.held(p.other.TryAcquire(p.Context(), "r", time.Minute))
		_, err := p.other.Lock("r").TryHold(p.Context(), redlock.HoldOptions{TTL: time.Minute})
		p.held(redlock.Lock{}, err)
	},
	"`lock.tryLock(100, 10, SECONDS)`": func(p *port) {
		lock := p.ok(p.mine.Acquire(p.Context(), "r", time.Minute))
		_, err := p.other.Acquire(p.within(100*time.Millisecond), "r", time.Minute)
		require.ErrorIs(p, err, context.DeadlineExceeded)
		p.held(redlock.Lock{}, err)
		_, err = p.with(redlock.Config{MaxWait: 100 * time.Millisecond}).Acquire(p.Context(), "r", time.Minute)
		require.ErrorIs(p, err, redlock.ErrMaxWait)
		time.AfterFunc(50*time.Millisecond, func() { _ = lock.Release(context.Background()) })
		p.ok(p.other.Acquire(p.within(patience), "r", time.Minute))
	},
	"`lock.lockInterruptibly()`": func(p *port) {
		p.ok(p.mine.Acquire(p.Context(), "r", time.Minute))
		ctx, interrupt := context.WithCancel(p.Context())
		time.AfterFunc(50*time.Millisecond, interrupt)
		_, err := p.other.Acquire(ctx, "r", time.Minute)
		require.ErrorIs(p, err, context.Canceled)
	},
	"`lock.lockAsync()`, `RLockReactive`, `RLockRx`": func(p *port) {
		locks := make(chan redlock.Lock)
		go func() {
			lock, _ := p.mine.Acquire(p.Context(), "r", time.Minute)
			locks <- lock
		}()
		lock := p.ok(<-locks, nil)
		require.NoError(p, lock.Release(p.Context()), "by another goroutine")
	},
	"`lock.unlock()`, `IllegalMonitorStateException`": func(p *port) {
		lock := p.ok(p.mine.Acquire(p.Context(), "r", time.Minute))
		require.NoError(p, lock.Release(p.Context()))
		require.ErrorIs(p, lock.Release(p.Context()), redlock.ErrNotHeld)
		p.ok(p.other.TryAcquire(p.Context(), "r", time.Minute))
	},
	"a thread may lock what it holds": func(p *port) {
		o := redlock.HoldOptions{TTL: time.Minute, Reentrant: true}
		entered := 0
		err := p.mine.Lock("r").DoWith(p.Context(), o, func(ctx context.Context) error {
			entered++
			p.held(p.mine.TryAcquire(ctx, "r", time.Minute))
			return p.mine.Lock("r").DoWith(ctx, o, func(ctx context.Context) error {
				return p.mine.All("r").DoWith(ctx, o, func(context.Context) error {
					entered++
					return nil
				})
			})
		})
		require.NoError(p, err)
		require.Equal(p, 2, entered)
	},
	"`lock.isHeldByCurrentThread()`": func(p *port) {
		lock := p.ok(p.mine.Acquire(p.Context(), "r", time.Second))
		eventually(p.T, "the end of the validity", func() bool { return lock.Validity() <= 0 })
		err := p.mine.Do(p.Context(), "r", time.Minute, func(ctx context.Context) error {
			hold, ok := redlock.FromContext(ctx)
			require.True(p, ok)
			require.NoError(p, hold.Err())
			return nil
		})
		require.NoError(p, err)
	},
	"`lock.getHoldCount()`": nil,
	"`lock.isLocked()`, `remainTimeToLive()`": func(p *port) {
		found, err := admin.Inspect(p.Context(), p.other, "r")
		require.NoError(p, err)
		require.Equal(p, admin.StateFree, found.State)
		p.ok(p.mine.Acquire(p.Context(), "r", time.Minute))
		found, err = admin.Inspect(p.Context(), p.other, "r")
		require.NoError(p, err)
		require.Equal(p, admin.StateHeld, found.State)
		require.Greater(p, found.TTL, 30*time.Second)
	},
	"`lock.forceUnlock()`": func(p *port) {
		lock := p.ok(p.mine.Acquire(p.Context(), "r", time.Minute))
		got := within("release", p.nodes, "--force", "--yes", "r")
		require.Equal(p, exitOK, got.code, got)
		p.ok(p.other.TryAcquire(p.Context(), "r", time.Minute))
		require.ErrorIs(p, lock.Release(p.Context()), redlock.ErrNotHeld)
	},
	"`getSpinLock`": func(p *port) {
		spins := p.with(redlock.Config{Retry: redlock.Retry{Tries: 1_000_000, MinDelay: time.Millisecond, MaxDelay: 20 * time.Millisecond}})
		lock := p.ok(p.mine.Acquire(p.Context(), "r", time.Minute))
		time.AfterFunc(50*time.Millisecond, func() { _ = lock.Release(context.Background()) })
		p.ok(spins.Acquire(p.Context(), "r", time.Minute))
		require.True(p, spins.Stats().Polling)
	},
	"`getMultiLock` over names on one server": func(p *port) {
		names := []string{"q", "r"}
		lock := p.ok(p.mine.All(names...).Acquire(p.Context(), time.Minute))
		p.held(p.other.TryAcquire(p.Context(), "r", time.Minute))
		p.held(p.other.All("p", "q").TryAcquire(p.Context(), time.Minute))
		p.ok(p.other.TryAcquire(p.Context(), "p", time.Minute))
		require.NoError(p, lock.Release(p.Context()))
		hold, err := p.mine.All(names...).Hold(p.Context(), redlock.HoldOptions{TTL: time.Minute})
		require.NoError(p, err)
		require.NoError(p, hold.Release(p.Context()))
		require.NoError(p, p.mine.All(names...).DoWith(p.Context(), redlock.HoldOptions{TTL: time.Minute}, func(ctx context.Context) error { return ctx.Err() }))
	},
	"`getMultiLock` over servers, `getRedLock` (deprecated)": func(p *port) {
		p.ok(p.mine.Acquire(p.Context(), "r", time.Minute))
		eventually(p.T, "a key on each of the three", func() bool {
			found, err := admin.Inspect(p.Context(), p.other, "r")
			return err == nil && found.Agree == 3
		})
	},
	"`getFencedLock`, `lockAndGetToken`": func(p *port) {
		c, last := p.with(redlock.Config{Fenced: true}), uint64(0)
		for range 3 {
			lock := p.ok(c.Acquire(p.Context(), "r", time.Minute))
			require.Greater(p, lock.Fence(), last)
			last = lock.Fence()
			require.NoError(p, lock.Release(p.Context()))
		}
	},
	"`getReadWriteLock`, `readLock`, `writeLock`": func(p *port) {
		mine, other := p.mine.RW("r"), p.other.RW("r")
		read := p.ok(mine.Read().Acquire(p.Context(), time.Minute))
		second := p.ok(other.Read().TryAcquire(p.Context(), time.Minute))
		p.held(other.Write().TryAcquire(p.Context(), time.Minute))
		require.NoError(p, second.Release(p.Context()))
		write := p.ok(mine.Upgrade(p.Context(), read, time.Minute))
		p.held(other.Read().TryAcquire(p.Context(), time.Minute))
		require.NoError(p, read.Release(p.Context()))
		p.ok(mine.Downgrade(p.Context(), write, time.Minute))
		p.ok(other.Read().TryAcquire(p.Context(), time.Minute))
	},
	"`getFairLock`": func(p *port) {
		lock := p.ok(p.mine.Fair("r").Acquire(p.Context(), time.Minute))
		order := make(chan int, 3)
		for i := range 3 {
			go func() {
				lock, err := []*redlock.Client{p.other, p.mine}[i%2].Fair("r").Acquire(p.Context(), time.Minute)
				if order <- i; err == nil {
					_ = lock.Release(context.Background())
				}
			}()
			eventually(p.T, "another one in the queue", func() bool {
				found, err := admin.Inspect(p.Context(), p.mine, "r")
				return err == nil && len(found.Queue) == i+1 && len(found.Queue[i].Nodes) == 3
			})
		}
		require.NoError(p, lock.Release(p.Context()))
		require.Equal(p, []int{0, 1, 2}, []int{<-order, <-order, <-order})
	},
	"`getFairLock(name)` with a `threadWaitTime`": func(p *port) {
		lock := p.ok(p.other.Fair("r").TryAcquire(p.Context(), time.Minute))
		patient := p.with(redlock.Config{FairLease: 10 * time.Second})
		got := make(chan error, 1)
		go func() {
			_, err := patient.Fair("r").Acquire(p.Context(), time.Minute)
			got <- err
		}()
		eventually(p.T, "it is in the queue", func() bool {
			found, err := admin.Inspect(p.Context(), p.mine, "r")
			return err == nil && len(found.Queue) == 1 && len(found.Queue[0].Nodes) == 3
		})
		require.NoError(p, lock.Release(p.Context()))
		require.NoError(p, <-got)
	},
	"`getMultiLock` over locks of different kinds": nil,
	"a lock that is held already, to be renewed by a watchdog": func(p *port) {
		h, err := p.mine.Keep(p.Context(), p.ok(p.mine.RW("r").Write().TryAcquire(p.Context(), time.Second)), redlock.HoldOptions{})
		require.NoError(p, err)
		time.Sleep(2 * time.Second)
		p.held(p.other.TryAcquire(p.Context(), "r", time.Minute))
		lock, err := h.Detach()
		require.NoError(p, err)
		require.NoError(p, lock.Release(p.Context()))
	},
	"`getPermitExpirableSemaphore`, `trySetPermits`": func(p *port) {
		p.ok(p.mine.Semaphore("r", 2).Acquire(p.Context(), time.Minute))
		p.ok(p.other.Semaphore("r", 2).TryAcquire(p.Context(), time.Minute))
		p.held(p.mine.Semaphore("r", 2).TryAcquire(p.Context(), time.Minute))
	},
	"its `acquire(10, SECONDS)`, `release(id)`": func(p *port) {
		s := p.mine.Semaphore("r", 1)
		p.ok(s.Acquire(p.Context(), time.Second)) // which ends by itself
		lock := p.ok(p.other.Semaphore("r", 1).Acquire(p.Context(), time.Minute))
		require.NoError(p, lock.Release(p.Context()))
		require.NoError(p, s.DoWith(p.Context(), redlock.HoldOptions{TTL: time.Minute}, func(ctx context.Context) error { return ctx.Err() }))
	},
	"its `updateLeaseTime(id, 20, SECONDS)`": func(p *port) {
		lock := p.ok(p.mine.Semaphore("r", 1).Acquire(p.Context(), time.Minute))
		longer := p.ok(lock.Extend(p.Context(), 2*time.Minute))
		require.Greater(p, longer.Validity(), time.Minute)
		again := p.ok(longer.Extend(p.Context(), time.Minute))
		require.Greater(p, again.Validity(), time.Minute, "it never shortens")
	},
	"its `release(id)` and `updateLeaseTime(id, …)` in another process than `acquire`": nil,
	"its `acquire(3)`, several permits in one step":                                    nil,
	"its `availablePermits()`": func(p *port) {
		p.ok(p.mine.Semaphore("r", 3).Acquire(p.Context(), time.Minute))
		eventually(p.T, "two of three free", func() bool {
			found, err := admin.Inspect(p.Context(), p.other, "r")
			return err == nil && found.Permits == 3 && found.FreePermits == 2
		})
	},
	"its `addPermits`, `setPermits`": func(p *port) {
		more, fewer := p.mine.Semaphore("r", 2), p.other.Semaphore("r", 1)
		short := p.ok(fewer.Acquire(p.Context(), time.Second))
		p.held(more.TryAcquire(p.Context(), time.Minute))
		eventually(p.T, "the end of the record of one", func() bool {
			_, err := more.TryAcquire(p.Context(), time.Minute)
			return err == nil
		})
		require.Negative(p, short.Validity())
		p.ok(more.Acquire(p.Context(), time.Minute))
		p.held(fewer.TryAcquire(p.Context(), time.Minute))
	},
	"`getSemaphore`":      nil,
	"`getCountDownLatch`": nil,
}

// Every row of the table for those who come from Redisson has a counterpart
// that works, or says that there is none. (With -count=1, as the document is
// outside of this module.)
func TestEveryRowForRedissonHasItsCounterpart(t *testing.T) {
	text, err := os.ReadFile("../../docs/migrating.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n| Redisson | redmux | differs |\n|---|---|---|\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n\n")
	instead := make(map[string]string)
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		require.Len(t, cells, 3, line)
		name := strings.TrimSpace(cells[0])
		require.NotContains(t, instead, name)
		instead[name] = strings.TrimSpace(cells[1])
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(instead)), slices.Collect(maps.Keys(redissonPorts)), "the rows, and what is run here")
	for name, run := range redissonPorts {
		t.Run(strings.ReplaceAll(name, "`", ""), func(t *testing.T) {
			if run == nil {
				require.Equal(t, "–", instead[name], "a row that promises something needs a counterpart")
				return
			}
			t.Parallel()
			servers, nodes := masters(t, 3)
			p := &port{T: t, nodes: nodes}
			for _, s := range servers {
				p.urls = append(p.urls, s.URL())
			}
			p.mine, p.other = p.with(redlock.Config{}), p.with(redlock.Config{})
			run(p)
		})
	}
}
