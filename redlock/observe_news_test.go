package redlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// records is a slog.Handler that calls a function and then keeps its record.
type records struct {
	first func()
	mu    sync.Mutex
	all   []map[string]string
	times []time.Time
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }

func (r *records) Handle(_ context.Context, record slog.Record) error {
	if r.first != nil {
		r.first()
	}
	line := map[string]string{"level": record.Level.String(), "msg": record.Message}
	record.Attrs(func(a slog.Attr) bool {
		line[a.Key] = a.Value.String()
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, line)
	r.times = append(r.times, record.Time)
	return nil
}

// take returns the records so far and drops them.
func (r *records) take() []map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all, r.times = nil, nil
	return all
}

// A change of state is one record with the node's number, its state and the
// class of the cause; without a change there is no record.
func TestLoggerIsToldOfChanges(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		var log records
		c := m.opened(t, Config{Logger: slog.New(&log), MaxTTL: time.Minute})
		synctest.Wait()
		var up []map[string]string
		for i, n := range m.nodes {
			up = append(up, map[string]string{
				"level": "INFO", "msg": "redlock: node is up", "node": fmt.Sprint(i), "addr": n.Addr(), "state": "up",
			})
		}
		require.ElementsMatch(t, up, log.take())
		lock := mustAcquire(t, c, "r", time.Minute)
		require.NoError(t, lock.Release(context.Background()))
		time.Sleep(time.Minute)
		require.Empty(t, log.take(), "work is no news, nor are probes")

		m.link(1).Refuse(true)
		m.nodes[1].DropConns()
		time.Sleep(time.Minute)
		at := time.Now()
		down := log.take()
		require.Len(t, down, 2)
		for i, cause := range []string{"peer", "unreachable"} {
			require.NotEmpty(t, down[i]["error"])
			delete(down[i], "error")
			require.Equal(t, map[string]string{
				"level": "WARN", "msg": "redlock: node is not up", "node": "1", "addr": m.addr(1), "state": "down", "cause": cause,
			}, down[i])
		}
		m.link(1).Refuse(false)
		require.Eventually(t, func() bool { return c.Nodes()[1].State == "up" }, 5*time.Second, ms)
		synctest.Wait()
		require.Equal(t, at.Before(log.times[0]), true, "a record has the time of the change")
		require.Equal(t, up[1:2], log.take())
		closeNow(t, c)
		require.Empty(t, log.take(), "Close is no news")
	})
}

// A handler may use the client: the engine holds no mutex while it runs. It may
// be slow: no call waits for it, the records it misses are counted, and the
// next one says how many.
func TestListenersDelayNobody(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		var c *Client
		made, free := make(chan struct{}), make(chan struct{})
		log := &records{first: func() {
			<-made
			require.Len(t, c.Nodes(), 3)
			_ = c.Stats()
			lock, err := c.Acquire(context.Background(), "handler", time.Second)
			assert.NoError(t, err)
			assert.NoError(t, lock.Release(context.Background()))
			<-free
		}}
		var told []NodeChange
		c = m.opened(t, Config{MaxTTL: DefaultMaxTTL, Logger: slog.New(log), Tracer: &Tracer{NodeChanged: func(n NodeChange) { told = append(told, n) }}})
		close(made)
		const flaps = maxNews
		var last time.Time
		for range flaps {
			last = time.Now()
			m.nodes[0].DropConns()
			time.Sleep(2 * time.Second) // within the budget of dials
			start := time.Now()
			lock := mustAcquire(t, c, "r", time.Second)
			require.Equal(t, 2*ms, time.Since(start))
			require.NoError(t, lock.Release(context.Background()))
		}
		require.Empty(t, log.all, "the handler is blocked by its first record")
		close(free)
		time.Sleep(10 * time.Second)
		synctest.Wait()

		all := 3 + 2*flaps
		require.Len(t, log.all, maxNews+1, "the first, and all that had room")
		require.Equal(t, fmt.Sprint(all-maxNews-1), log.all[1]["dropped"], "the oldest are dropped, and said once")
		for i, line := range log.all {
			require.Equal(t, i == 1, line["dropped"] != "")
		}
		require.Equal(t, "up", log.all[maxNews]["state"])
		require.True(t, log.times[maxNews].After(last), "what is told last is how it is")
		require.Len(t, told, maxNews+1)
		require.EqualValues(t, all-maxNews-1, told[1].Dropped)
		require.Zero(t, told[0].Dropped+told[2].Dropped)
	})
}

// Records of a disabled level do not swallow the number of dropped records.
func TestDroppedNewsAreSaidByTheNextRecord(t *testing.T) {
	var out bytes.Buffer
	n := &news{logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	n.tell(item{notice: &notice{level: slog.LevelInfo, message: "unheard"}, dropped: 3})
	n.tell(item{notice: &notice{level: slog.LevelWarn, message: "heard"}, dropped: 2})
	n.tell(item{notice: &notice{level: slog.LevelWarn, message: "next"}})
	require.NotContains(t, out.String(), "unheard")
	require.Contains(t, out.String(), "msg=heard dropped=5")
	require.NotContains(t, out.String(), "msg=next dropped")
}

// Close lets pending records be delivered, and does not wait forever for
// handlers that do not return (R28).
func TestCloseAndTheListeners_R28(t *testing.T) {
	background := context.Background()
	ended, cancel := context.WithCancel(background)
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		blocks bool
		most   time.Duration
		told   int
	}{
		"what waits is told":                    {background, false, 100 * ms, 10},
		"a listener that blocks":                {background, true, newsPatience + 100*ms, 1},
		"… and a context that has ended":        {ended, true, newsHaste + 20*ms, 1},
		"no handler blocks, but in great haste": {ended, false, newsHaste + 20*ms, -1},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 1, func(t *testing.T, m *memory) {
				free := make(chan struct{})
				told := 0
				lost := func(HoldInfo) {
					if told++; c.blocks {
						<-free
					}
				}
				client := m.client(t, Config{Tracer: &Tracer{HoldLost: lost}})
				for range 10 {
					client.holdLost(HoldInfo{Resource: "r", Err: ErrNotHeld})
				}
				if c.blocks {
					synctest.Wait() // until it is called: with an ended context Close might come before the first record
				}
				start := time.Now()
				_ = client.Close(c.ctx)
				require.LessOrEqual(t, time.Since(start), c.most)
				client.holdLost(HoldInfo{}) // no record is delivered any more, and nothing blocks
				close(free)
				synctest.Wait()
				if c.told >= 0 {
					require.Equal(t, c.told, told)
				}
				require.NoError(t, client.Close(background), "twice")
			})
		})
	}
}

// The log says that a lock was lost, but not which one (R27); the tracer, which
// is the user's own, gets the name.
func TestLostHoldIsTold_R27(t *testing.T) {
	simulated(t, 1, func(t *testing.T, m *memory) {
		var log records
		var told []HoldInfo
		c := m.client(t, Config{Logger: slog.New(&log), Tracer: &Tracer{HoldLost: func(i HoldInfo) { told = append(told, i) }}})
		synctest.Wait()
		log.take()
		since := time.Now()
		info := HoldInfo{Resource: "customer-4711", Since: since, Until: since.Add(time.Second), Err: errors.New("why")}
		c.holdLost(info)
		c.notice(slog.LevelWarn, "redlock: something", slog.Int("node", 1))
		synctest.Wait()
		require.Equal(t, []map[string]string{
			{"level": "WARN", "msg": "redlock: hold lost", "held": "1s", "error": "why"},
			{"level": "WARN", "msg": "redlock: something", "node": "1"},
		}, log.take())
		require.Equal(t, []HoldInfo{info}, told)
	})
}

// Whatever happens to the nodes, no record contains a password, a resource or a
// token (R27).
func TestNothingSecretIsLogged_R27(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, nil))
		urls := []string{m.url(0, "default:hunter2"), m.url(1, ":hunter2"), m.urls()[2]}
		c := m.client(t, Config{Nodes: Nodes(urls...), Logger: logger})
		lock := mustAcquire(t, c, "customer-4711", time.Minute)
		m.nodes[0].Refuse("-WRONGPASS no, not hunter2", "HELLO")
		m.nodes[1].Refuse("-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'hunter2'", "HELLO")
		m.nodes[2].Refuse("-NOPERM no permissions to access the key customer-4711", "EVALSHA")
		for _, n := range m.nodes {
			n.DropConns()
		}
		_ = lock.Release(context.Background())
		time.Sleep(time.Minute)
		closeNow(t, c)
		require.Contains(t, out.String(), "WRONGPASS")
		require.Contains(t, out.String(), "NOPERM")
		requireSecret(t, out.String(), lock.Token(), "log", logger)
	})
}

// Records may come while the client closes, from any goroutine.
func TestNewsAtTheEnd(t *testing.T) {
	n := &news{wake: make(chan struct{}, 1), done: make(chan struct{}), running: true, holdLost: func(HoldInfo) {}}
	go n.run()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				n.put(item{hold: &HoldInfo{}})
			}
		})
	}
	wg.Go(func() { n.close(context.Background()) })
	wg.Wait()
	<-n.done
	require.LessOrEqual(t, len(n.waiting), maxNews)
}
