package redlock

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Readers share a resource, and a writer has it alone.
func TestReadersShareAndAWriterIsAlone(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}).RW("r"), m.client(t, Config{}).RW("r")
		first, err := a.Read().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		second, err := b.Read().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		require.Equal(t, []string{"r"}, second.Resources())
		for _, rw := range []RWLock{a, b} {
			_, err = rw.Write().TryAcquire(t.Context(), time.Minute)
			require.ErrorIs(t, err, ErrHeld)
			require.ErrorContains(t, err, `"r"`)
		}
		_, err = b.Read().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err, "a writer that does not wait keeps no reader out")

		require.NoError(t, first.Release(t.Context()))
		require.ErrorIs(t, first.Release(t.Context()), ErrNotHeld)
		_, err = first.Extend(t.Context(), time.Minute)
		require.ErrorIs(t, err, ErrNotHeld)
		longer, err := second.Extend(t.Context(), 2*time.Minute)
		require.NoError(t, err)
		require.Greater(t, longer.Validity(), time.Minute)

		m.forget("r:redlock:readers")
		written, err := a.Write().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		_, err = b.Write().TryAcquire(t.Context(), time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		_, err = b.Read().TryAcquire(t.Context(), time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		written, err = written.Extend(t.Context(), 2*time.Minute)
		require.NoError(t, err)
		require.NoError(t, written.Release(t.Context()))
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
	})
}

// Each reader has its own time: neither does a short one end a long one, nor
// does a long one keep a short one in.
func TestEachReaderHasItsOwnTime(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		rw := m.client(t, Config{}).RW("r")
		long, err := rw.Read().TryAcquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		short, err := rw.Read().TryAcquire(t.Context(), time.Second)
		require.NoError(t, err)
		time.Sleep(1100 * ms)
		require.Negative(t, short.Validity())
		short.until = time.Now().Add(time.Minute) // as if no clock had told it
		_, err = short.Extend(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, ErrNotHeld, "its time was over")
		require.ErrorIs(t, short.Release(t.Context()), ErrNotHeld)
		_, err = rw.Write().TryAcquire(t.Context(), time.Second)
		require.ErrorIs(t, err, ErrHeld, "the long one reads")
		time.Sleep(7 * time.Second)
		require.Positive(t, long.Validity())
		_, err = rw.Write().TryAcquire(t.Context(), time.Second)
		require.ErrorIs(t, err, ErrHeld)
		time.Sleep(2 * time.Second)
		_, err = rw.Write().TryAcquire(t.Context(), time.Second)
		require.NoError(t, err, "all times are over, though the set still stands")
	})
}

// While a writer waits, no new reader gets in, and neither waits for longer
// than it takes to finish. No writer waits because another does.
func TestWaitingWritersStopReadersOnly(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b, c := m.client(t, Config{}).RW("r"), m.client(t, Config{}).RW("r"), m.client(t, Config{}).RW("r")
		read, err := a.Read().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		wrote := make(chan time.Time, 2)
		for _, rw := range []RWLock{b, c} {
			go func() {
				lock, err := rw.Write().Acquire(context.Background(), time.Minute)
				assert.NoError(t, err)
				wrote <- time.Now()
				time.Sleep(50 * ms)
				assert.NoError(t, lock.Release(context.Background()))
			}()
		}
		time.Sleep(20 * ms)
		for range 50 { // for five seconds
			_, err := a.Read().TryAcquire(t.Context(), time.Minute)
			require.ErrorIs(t, err, ErrHeld, "a writer waits")
			time.Sleep(100 * ms)
		}
		reads := make(chan time.Time, 1)
		go func() {
			lock, err := a.Read().Acquire(context.Background(), time.Minute)
			assert.NoError(t, err)
			reads <- time.Now()
			assert.NoError(t, lock.Release(context.Background()))
		}()
		time.Sleep(20 * ms)
		released := time.Now()
		require.NoError(t, read.Release(t.Context()))
		require.Less(t, (<-wrote).Sub(released), 30*ms, "the nodes push that the last reader has gone")
		require.Less(t, (<-wrote).Sub(released), 150*ms)
		require.Less(t, (<-reads).Sub(released), kind.MarkTime+150*ms)
		time.Sleep(kind.MarkTime)
		require.Zero(t, m.keys())
	})
}

// A writer that waited for a reader, and then for another writer, is told when
// that has gone: it asks no oftener than one that never met a reader.
func TestAWriterThatWaitsForAWriterAsksSeldom(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		rw, waits := m.used(t, Config{}).RW("r"), m.used(t, Config{}).RW("r")
		read, err := rw.Read().TryAcquire(t.Context(), time.Hour)
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			_, err := waits.Write().Acquire(context.Background(), time.Minute)
			got <- err
		}()
		time.Sleep(time.Second)
		write, err := rw.Upgrade(t.Context(), read, time.Hour)
		require.NoError(t, err)
		require.NoError(t, read.Release(t.Context()))
		time.Sleep(time.Second)
		before := m.calls()[wire.Write.Digest]
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, m.calls()[wire.Write.Digest]-before, 20, "see fallbackMost")
		require.Empty(t, got)
		released := time.Now()
		require.NoError(t, write.Release(t.Context()))
		require.NoError(t, <-got)
		require.Less(t, time.Since(released), 20*ms)
	})
}

// A writer that gives up keeps readers out for no longer than its mark stands.
func TestAWriterThatGivesUp(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}).RW("r"), m.client(t, Config{}).RW("r")
		read, err := a.Read().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = b.Write().Acquire(ctx, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrHeld, "it is the last attempt's")
		start := time.Now()
		again, err := a.Read().Acquire(t.Context(), time.Minute)
		require.NoError(t, err)
		require.Less(t, time.Since(start), kind.MarkTime+50*ms)
		require.NoError(t, again.Release(t.Context()))
		require.NoError(t, read.Release(t.Context()))
	})
}

// No writer starves: sixteen readers that overlap all the time let it in.
func TestNoWriterStarves(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		stop := time.Now().Add(5 * time.Second)
		var readers []RWLock
		for range 16 {
			readers = append(readers, m.client(t, Config{}).RW("r"))
		}
		reads, wait := overlap(t, readers, stop, func(r *rand.Rand) time.Duration { return spanOf(r, 20*ms) })
		rw := m.client(t, Config{}).RW("r")
		var waits []time.Duration
		for time.Now().Before(stop) {
			time.Sleep(20 * ms)
			start := time.Now()
			lock, err := rw.Write().Acquire(t.Context(), time.Minute)
			require.NoError(t, err)
			waits = append(waits, time.Since(start))
			require.NoError(t, lock.Release(t.Context()))
		}
		wait()
		slices.Sort(waits)
		p99 := waits[len(waits)*99/100]
		t.Logf("%d reads; %d writes, which waited %v, %v (p99), %v at most",
			reads.Load(), len(waits), waits[len(waits)/2], p99, waits[len(waits)-1])
		require.Less(t, p99, 100*ms)
		require.Greater(t, reads.Load(), int64(len(waits)))
	})
}

// Readers that wait for a writer are told when it has gone, or has become a
// reader, and not when it gets in, which is no use to them.
func TestReadersAreToldThatTheWriterHasGone(t *testing.T) {
	for name, end := range map[string]func(RWLock, Lock) error{
		"released": func(_ RWLock, l Lock) error { return l.Release(context.Background()) },
		"downgraded": func(rw RWLock, l Lock) error {
			_, err := rw.Downgrade(context.Background(), l, time.Minute)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 5, func(t *testing.T, m *memory) {
				first, err := m.used(t, Config{}).RW("r").Read().TryAcquire(t.Context(), time.Minute)
				require.NoError(t, err)
				rw := m.used(t, Config{}).RW("r")
				wrote, read := make(chan Lock), make(chan time.Time, 1)
				go func() {
					lock, err := rw.Write().Acquire(context.Background(), time.Minute)
					assert.NoError(t, err)
					wrote <- lock
				}()
				time.Sleep(time.Second)
				waits := m.used(t, Config{}).RW("r").Read()
				go func() {
					_, err := waits.Acquire(context.Background(), time.Minute)
					assert.NoError(t, err)
					read <- time.Now()
				}()
				time.Sleep(time.Second)
				require.NoError(t, first.Release(t.Context()))
				lock := <-wrote
				before := m.calls()[wire.Read.Digest]
				time.Sleep(20 * ms)
				require.Equal(t, before, m.calls()[wire.Read.Digest], "it asked while the writer had the lock")
				gone := time.Now()
				require.NoError(t, end(rw, lock))
				require.Less(t, (<-read).Sub(gone), 20*ms)
			})
		})
	}
}

// overlap lets readers read again and again, each for a time of its own. wait
// waits for their end.
func overlap(t *testing.T, readers []RWLock, until time.Time, span func(*rand.Rand) time.Duration) (reads *atomic.Int64, wait func()) {
	reads = new(atomic.Int64)
	var wg sync.WaitGroup
	for i, rw := range readers {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for time.Now().Before(until) {
				lock, err := rw.Read().Acquire(context.Background(), time.Minute)
				if !assert.NoError(t, err) {
					return
				}
				reads.Add(1)
				time.Sleep(span(random))
				assert.NoError(t, lock.Release(context.Background()))
			}
		})
	}
	return reads, wg.Wait
}

// The only reader becomes the writer, stays a reader, and is one again when it
// has released the write lock. With another reader or a writer it is refused at
// once, and reads on.
func TestUpgrade(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}).RW("r"), m.client(t, Config{}).RW("r")
		read, err := a.Read().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		other, err := b.Read().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		for range 2 {
			start := time.Now()
			_, err = a.Upgrade(t.Context(), read, time.Minute)
			require.ErrorIs(t, err, ErrHeld)
			require.LessOrEqual(t, time.Since(start), 4*ms)
			_, err = b.Upgrade(t.Context(), other, time.Minute)
			require.ErrorIs(t, err, ErrHeld, "both may ask, and neither waits")
			require.NotContains(t, m.nodes[0].Keys(), "r"+wire.MarkSuffix, "so it keeps no reader out")
		}
		time.Sleep(5 * ms)
		read, err = read.Extend(t.Context(), time.Minute)
		require.NoError(t, err, "what undoes the attempt leaves the reader")
		require.NoError(t, other.Release(t.Context()))

		write, err := a.Upgrade(t.Context(), read, time.Minute)
		require.NoError(t, err)
		_, err = b.Read().TryAcquire(t.Context(), time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		_, err = b.Write().TryAcquire(t.Context(), time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		_, err = a.Upgrade(t.Context(), read, time.Minute)
		require.ErrorIs(t, err, ErrHeld, "it is the writer already")
		require.NoError(t, write.Release(t.Context()))
		_, err = b.Write().TryAcquire(t.Context(), time.Minute)
		require.ErrorIs(t, err, ErrHeld, "it reads again")
		require.NoError(t, read.Release(t.Context()))
		_, err = a.Upgrade(t.Context(), other, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld, "the lock of another client")
		short, err := a.Read().TryAcquire(t.Context(), 100*ms)
		require.NoError(t, err)
		_, err = a.Downgrade(t.Context(), short, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld, "a reader")
		short, err = short.Extend(t.Context(), 100*ms)
		require.NoError(t, err, "it is left as it is")
		time.Sleep(100 * ms)
		_, err = a.Upgrade(t.Context(), short, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld, "its validity is over (R15)")
		require.ErrorIs(t, short.Release(t.Context()), ErrNotHeld)
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
	})
}

// A writer that is too far away for its TTL gets no lock, and does not keep the
// readers out.
func TestAWriterTooFarAwayLetsReadersIn(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		far, network := m.apartPlain(t, Config{})
		for _, n := range m.nodes {
			network.At(n.Addr()).Latency(60*ms, 60*ms)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		var grants atomic.Int64
		for i := range 3 {
			read := m.client(t, Config{}).RW("r").Read()
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 7 * ms) // so that there is always one
				for ctx.Err() == nil {
					lock, err := read.Acquire(ctx, time.Minute)
					if err != nil {
						continue
					}
					grants.Add(1)
					time.Sleep(20 * ms)
					assert.NoError(t, lock.Release(context.Background()))
				}
			})
		}
		time.Sleep(100 * ms)
		_, err := far.RW("r").Write().Acquire(ctx, time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		wg.Wait()
		require.Greater(t, grants.Load(), int64(800))
	})
}

// A lock that is downgraded is no new one, so that work which Drain waits for
// keeps what it has.
func TestDowngradeDuringDrain_R28(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		rw := c.RW("r")
		write, err := rw.Write().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		require.NoError(t, c.Drain(t.Context()))
		read, err := rw.Downgrade(t.Context(), write, time.Minute)
		require.NoError(t, err)
		_, err = rw.Upgrade(t.Context(), read, time.Minute)
		require.ErrorIs(t, err, ErrClosed, "that would be a new lock")
		require.NoError(t, read.Release(t.Context()))
		closeNow(t, c)
		_, err = rw.Downgrade(t.Context(), write, time.Minute)
		require.ErrorIs(t, err, ErrClosed)
	})
}

// The writer becomes a reader, and no other writer gets in between.
func TestDowngrade(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}).RW("r"), m.client(t, Config{}).RW("r")
		write, err := a.Write().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		waits := make(chan Lock, 1)
		go func() {
			lock, err := b.Write().Acquire(context.Background(), time.Minute)
			assert.NoError(t, err)
			waits <- lock
		}()
		time.Sleep(20 * ms)
		read, err := a.Downgrade(t.Context(), write, 30*time.Second)
		require.NoError(t, err)
		require.LessOrEqual(t, read.Validity(), 30*time.Second)
		require.ErrorIs(t, write.Release(t.Context()), ErrNotHeld)
		_, err = a.Downgrade(t.Context(), write, 30*time.Second)
		require.ErrorIs(t, err, ErrNotHeld)
		read, err = read.Extend(t.Context(), 30*time.Second)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Empty(t, waits)
		require.NoError(t, read.Release(t.Context()))
		other := <-waits
		require.NoError(t, other.Release(t.Context()))
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
	})
}

// A write lock that is downgraded after its validity is released: the nodes may
// have lengthened its keys for an extension that came too late. A lock that is
// none of the RWLock's writers is left alone.
func TestDowngradeAfterTheValidity_R7(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{NodeTimeout: 100 * ms})
		rw := c.RW("r")
		write, err := rw.Write().TryAcquire(t.Context(), time.Second)
		require.NoError(t, err)
		time.Sleep(960 * ms)
		for i := range m.nodes {
			m.delay(i, 70*ms)
		}
		_, err = write.Extend(t.Context(), time.Minute)
		require.ErrorIs(t, err, ErrExpired)
		for i := range m.nodes {
			m.delay(i, 2*ms)
		}
		require.Equal(t, 3, m.keys())
		other, err := m.client(t, Config{}).RW("r").Downgrade(t.Context(), write, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld, "of another client")
		require.Zero(t, other)
		_, err = c.RW("s").Downgrade(t.Context(), write, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld, "of another name")
		time.Sleep(5 * ms)
		require.Equal(t, 3, m.keys(), "it is left as it is")
		_, err = rw.Downgrade(t.Context(), write, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld)
		time.Sleep(2 * ms)
		require.Zero(t, m.keys())
		read, err := rw.Read().TryAcquire(t.Context(), time.Second)
		require.NoError(t, err)
		time.Sleep(time.Second)
		_, err = rw.Downgrade(t.Context(), read, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld, "a reader")
		require.ErrorIs(t, read.Release(t.Context()), ErrNotHeld)
		_, err = rw.Downgrade(t.Context(), Lock{}, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld, "none")
	})
}

// A downgrade of a lock that the nodes have lost is ErrNotHeld, to the caller
// and to the tracer: no other client holds the resource.
func TestDowngradeOfALostLock_R12(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		var traced []error
		c := m.client(t, Config{Tracer: &Tracer{AttemptDone: func(_ context.Context, i CallInfo) { traced = append(traced, i.Err) }}})
		write, err := c.RW("r").Write().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		m.forget("r")
		_, err = c.RW("r").Downgrade(t.Context(), write, time.Minute)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorContains(t, err, `"r"`)
		require.Equal(t, []error{nil, ErrNotHeld}, traced)
		require.EqualValues(t, 1, c.Stats().Attempts.Refused)
	})
}

// A node that does not hear of a downgrade, or not in time, forgets the writer
// when the reader is released. A downgrade without a quorum leaves nothing.
func TestDowngradeThatIsNotHeard_R7(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		rw := m.client(t, Config{NodeTimeout: 100 * ms}).RW("r")
		write, err := rw.Write().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		time.Sleep(5 * ms)
		m.nodes[0].Pause()
		read, err := rw.Downgrade(t.Context(), write, time.Minute)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"r"}, m.nodes[0].Keys())
		require.ElementsMatch(t, []string{"r:redlock:readers"}, m.nodes[1].Keys())
		require.NoError(t, read.Release(t.Context()))
		m.nodes[0].Resume()
		time.Sleep(2 * time.Second)
		require.Zero(t, m.keys())

		write, err = rw.Write().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		time.Sleep(5 * ms)
		m.link(0).Refuse(true)
		m.link(0).Reset()
		time.Sleep(100 * ms)
		read, err = rw.Downgrade(t.Context(), write, time.Minute)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"r"}, m.nodes[0].Keys())
		require.NoError(t, read.Release(t.Context()))
		m.link(0).Refuse(false)
		time.Sleep(2 * time.Second)
		require.Zero(t, m.keys())

		write, err = rw.Write().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		time.Sleep(5 * ms)
		m.nodes[0].Pause()
		m.nodes[1].Pause()
		_, err = rw.Downgrade(t.Context(), write, time.Minute)
		require.ErrorIs(t, err, ErrNoQuorum)
		m.nodes[0].Resume()
		m.nodes[1].Resume()
		time.Sleep(2 * time.Second)
		require.Zero(t, m.keys())

		write, err = rw.Write().TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		_, err = rw.Downgrade(t.Context(), write, 0)
		require.ErrorIs(t, err, ErrTTL)
		time.Sleep(5 * ms)
		require.Zero(t, m.keys(), "one that sends nothing is no exception")
	})
}

// A lock that was downgraded keeps the position of the writer's claim. Where
// the connection of that claim could not be killed, the server may execute it
// after the release, which is therefore repeated (R8).
func TestDowngradeKeepsThePositionOfTheWriter_R8(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		rw := m.client(t, Config{}).RW("r")
		released := func() (n int) {
			for _, e := range m.nodes[0].Log() {
				if e.Args[0] == "EVALSHA" && e.Args[1] == wire.ReleaseRead.Digest {
					n++
				}
			}
			return n
		}
		m.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			return []byte("-NOPERM no permissions to run the 'client|kill' command\r\n"), len(args) > 1 && args[1] == "KILL"
		})
		m.nodes[0].Pause()
		write, err := rw.Write().TryAcquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		m.link(0).Reset()
		m.nodes[0].Resume()
		time.Sleep(2 * time.Second)
		require.Equal(t, NodeUp, rw.client.Nodes()[0].State)

		read, err := rw.Downgrade(t.Context(), write, time.Second)
		require.NoError(t, err)
		require.NoError(t, read.Release(t.Context()))
		time.Sleep(5 * time.Second)
		require.Greater(t, released(), 1, "the server may still execute the writer's claim")
		time.Sleep(20 * time.Second)
		require.Zero(t, m.keys())

		all := released()
		read, err = rw.Read().TryAcquire(t.Context(), time.Second)
		require.NoError(t, err)
		require.NoError(t, read.Release(t.Context()))
		time.Sleep(5 * time.Second)
		require.Equal(t, all+1, released(), "that one was sent on the new connection alone")
	})
}

// Holds of readers and writers renew themselves, and do their work.
func TestHoldsOfReadersAndWriters(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{}).RW("r"), m.client(t, Config{}).RW("r")
		o := HoldOptions{TTL: time.Second}
		read, err := a.Read().Hold(t.Context(), o)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.NoError(t, read.Err())
		_, err = b.Write().TryHold(t.Context(), o)
		require.ErrorIs(t, err, ErrHeld)
		require.ErrorContains(t, err, `"r"`)
		require.NotContains(t, m.nodes[0].Keys(), "r"+wire.MarkSuffix, "it does not wait")
		short, cancel := context.WithTimeout(t.Context(), 20*ms)
		defer cancel()
		_, err = b.Write().Hold(short, o)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Contains(t, m.nodes[0].Keys(), "r"+wire.MarkSuffix)
		require.NoError(t, read.Release(t.Context()))
		require.NoError(t, b.Write().DoWith(t.Context(), o, func(ctx context.Context) error {
			time.Sleep(5 * time.Second)
			_, err := a.Read().TryAcquire(t.Context(), time.Second)
			require.ErrorIs(t, err, ErrHeld)
			require.ErrorIs(t, b.Read().DoWith(ctx, o, nothing), ErrNested)
			again := o
			again.Reentrant = true
			ran := 0
			for _, k := range []Locker{b.Read(), b.Write()} {
				require.NoError(t, k.DoWith(ctx, again, func(context.Context) error { ran++; return ctx.Err() }))
			}
			require.Equal(t, 2, ran)
			return nil
		}))
		require.NoError(t, a.Read().DoWith(t.Context(), o, func(ctx context.Context) error {
			again := o
			again.Reentrant = true
			require.ErrorIs(t, a.Write().DoWith(ctx, again, nothing), ErrNested, "a reader is no writer")
			return a.Read().DoWith(ctx, again, func(context.Context) error { return nil })
		}))
		for _, options := range []HoldOptions{{TTL: time.Second, MinHold: time.Second}, {TTL: time.Second, Heal: true}} {
			_, err = a.Read().Hold(t.Context(), options)
			require.ErrorIs(t, err, ErrHoldOptions)
			_, err = a.Write().TryHold(t.Context(), options)
			require.ErrorIs(t, err, ErrHoldOptions)
		}
		time.Sleep(5 * ms)
		require.Zero(t, m.keys())
	})
}

// A reader that lost its entries, or a writer its keys, loses the hold.
func TestHoldsOfReadersAreLost_R13(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		rw := m.client(t, Config{}).RW("r")
		for _, k := range []Locker{rw.Read(), rw.Write()} {
			h, err := k.Hold(t.Context(), HoldOptions{TTL: time.Second})
			require.NoError(t, err)
			m.forget("r")
			m.forget("r:redlock:readers")
			<-h.Context().Done()
			require.ErrorIs(t, h.Err(), ErrLost)
			require.ErrorIs(t, h.Release(t.Context()), ErrNotHeld)
		}
	})
}

// Every name that cannot be locked is refused, and the keys of two locks do not
// meet.
func TestNamesOfReadWriteLocks(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		for _, name := range []string{"", "redlock:seal", "a:redlock:readers", string(make([]byte, 1025))} {
			for _, k := range []Locker{c.RW(name).Read(), c.RW(name).Write()} {
				_, err := k.TryAcquire(t.Context(), time.Second)
				require.ErrorIs(t, err, ErrResource, "%q", name)
				_, err = k.Acquire(t.Context(), time.Second)
				require.ErrorIs(t, err, ErrResource, "%q", name)
				_, err = k.Hold(t.Context(), HoldOptions{TTL: time.Second})
				require.ErrorIs(t, err, ErrResource, "%q", name)
			}
		}
		_, err := c.RW("a").Read().TryAcquire(t.Context(), 0)
		require.ErrorIs(t, err, ErrTTL)
	})
}

// A refusal tells what is in the way: the writer, or one of the readers.
func TestOwnersOfReadWriteLocks(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		a, b := m.client(t, Config{Owner: "a"}).RW("r"), m.client(t, Config{Owner: "b"}).RW("r")
		for _, k := range []Locker{a.Read(), a.Write()} {
			lock, err := k.TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
			_, err = b.Write().TryAcquire(t.Context(), time.Minute)
			held := (*HeldError)(nil)
			require.ErrorAs(t, err, &held)
			require.Equal(t, "a", held.Owner)
			require.Empty(t, held.Resource)
			require.NoError(t, lock.Release(t.Context()))
		}
	})
}

// A client with fencing numbers has read/write locks without them, also on
// nodes that grant no numbers.
func TestReadWriteLocksHaveNoNumber(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.opened(t, fenced(func(*Config) {}))
		require.NoError(t, c.Ready(t.Context()))
		m.nodes[1].Pause()
		m.nodes[0].DB().Delete(wire.RecordName)
		m.nodes[0].DropConns()
		time.Sleep(200 * ms)
		_, err := c.TryAcquire(t.Context(), "x", time.Second)
		require.ErrorIs(t, err, ErrNoFloor)
		for _, k := range []Locker{c.RW("r").Read(), c.RW("r").Write()} {
			lock, err := k.TryAcquire(t.Context(), time.Second)
			require.NoError(t, err)
			require.Zero(t, lock.Fence())
			require.NoError(t, lock.Release(t.Context()))
		}
	})
}

// Readers, writers, upgrades and downgrades of several clients, with nodes that
// stop, lose their connections, and forget nothing: no writer is beside another
// holder, by its own validity.
func TestReadWriteLocksExclude(t *testing.T) {
	for seed := range seeds(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			simulated(t, 5, func(t *testing.T, m *memory) {
				random := rand.New(rand.NewPCG(seed, 1))
				e := &exclusion{t: t}
				stop := time.Now().Add(5 * time.Second)
				var wg sync.WaitGroup
				for i := range 6 {
					rw := m.client(t, Config{}).RW("r")
					own := rand.New(rand.NewPCG(seed, uint64(i+2)))
					wg.Go(func() {
						for time.Now().Before(stop) {
							e.turn(rw, own)
						}
					})
				}
				m.disturb(random, stop, 300*ms)
				wg.Wait()
				t.Logf("%d reads, %d writes, %d upgrades, %d downgrades", e.reads, e.writes, e.upgrades, e.downgrades)
				require.Greater(t, min(e.reads, e.writes), 10)
				time.Sleep(3 * time.Second)
				require.Zero(t, m.keys(), "nothing is left")
			})
		})
	}
}

// An exclusion checks who holds a read/write lock at a time.
type exclusion struct {
	t *testing.T

	mu                                  sync.Mutex // guards the following
	holds                               []*rwHeld
	reads, writes, upgrades, downgrades int
}

// An rwHeld is a lock, from its grant until its release or the end of its
// validity.
type rwHeld struct {
	writes bool
	until  time.Time
	under  *rwHeld // the read lock of an upgrade
}

func (e *exclusion) enter(h *rwHeld) *rwHeld {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	e.holds = slices.DeleteFunc(e.holds, func(o *rwHeld) bool { return !o.until.After(now) })
	for _, o := range e.holds {
		if (h.writes || o.writes) && h.under != o {
			assert.Fail(e.t, "two holders", "%+v beside %+v", *h, *o)
		}
	}
	e.holds = append(e.holds, h)
	return h
}

func (e *exclusion) leave(h *rwHeld) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h.until = time.Time{}
}

func (e *exclusion) count(n *int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*n++
}

// turn takes a lock, and does something with it.
func (e *exclusion) turn(rw RWLock, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), spanOf(random, time.Second))
	defer cancel()
	ttl := 100*ms + spanOf(random, 400*ms)
	k, writes := rw.Read(), random.IntN(3) == 0
	if writes {
		k = rw.Write()
	}
	acquire := k.Acquire
	if random.IntN(4) == 0 {
		acquire = k.TryAcquire
	}
	lock, err := acquire(ctx, ttl)
	if err != nil {
		time.Sleep(spanOf(random, 20*ms))
		return
	}
	h := e.enter(&rwHeld{writes: writes, until: lock.Until()})
	e.count(map[bool]*int{true: &e.writes, false: &e.reads}[writes])
	time.Sleep(spanOf(random, 50*ms))
	switch what := random.IntN(4); {
	case what == 0 && writes:
		e.leave(h)
		if lock, err = rw.Downgrade(ctx, lock, ttl); err != nil {
			return
		}
		h = e.enter(&rwHeld{until: lock.Until()})
		e.count(&e.downgrades)
	case what == 0:
		if write, err := rw.Upgrade(ctx, lock, ttl); err == nil {
			own := e.enter(&rwHeld{writes: true, until: write.Until(), under: h})
			e.count(&e.upgrades)
			time.Sleep(spanOf(random, 50*ms))
			e.leave(own)
			_ = write.Release(context.Background())
		}
	case what == 1:
		if longer, err := lock.Extend(ctx, ttl); err == nil {
			e.mu.Lock()
			h.until = longer.Until()
			e.mu.Unlock()
			lock = longer
		}
	}
	time.Sleep(spanOf(random, 50*ms))
	e.leave(h)
	_ = lock.Release(context.Background())
}

// disturb stops nodes for up to most, and resets connections, until the end.
func (m *memory) disturb(random *rand.Rand, until time.Time, most time.Duration) {
	for time.Now().Before(until) {
		if i := random.IntN(len(m.nodes)); random.IntN(2) == 0 {
			m.nodes[i].Pause()
			time.Sleep(spanOf(random, most))
			m.nodes[i].Resume()
		} else {
			m.link(i).Reset()
		}
		time.Sleep(spanOf(random, 300*ms))
	}
}

// seeds returns so many seeds, which a subtest's name shows. They are others
// each time, so that a test that is repeated finds more.
func seeds(n int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for range n {
			if !yield(rand.Uint64N(1_000_000)) {
				return
			}
		}
	}
}
