package redlock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// records is a slog.Handler that calls a function and then keeps its record,
// and what is wrong with its form.
type records struct {
	first func()
	mu    sync.Mutex
	all   []map[string]string
	times []time.Time
	wrong []string
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }

// unitless are the attributes that are numbers without a unit.
var unitless = []string{"node", "nodes", "quorum", "missing", "dropped"}

func (r *records) Handle(_ context.Context, record slog.Record) error {
	if r.first != nil {
		r.first()
	}
	line := map[string]string{"level": record.Level.String(), "msg": record.Message}
	var wrong []string
	record.Attrs(func(a slog.Attr) bool {
		line[a.Key] = a.Value.String()
		switch kind := a.Value.Kind(); {
		case kind == slog.KindString, (kind == slog.KindInt64 || kind == slog.KindUint64) && slices.Contains(unitless, a.Key):
		default:
			// A Handler for JSON writes a Duration as a number of nanoseconds.
			wrong = append(wrong, fmt.Sprintf("%s is a %v without a unit", a.Key, kind))
		}
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, line)
	r.times = append(r.times, record.Time)
	r.wrong = append(r.wrong, wrong...)
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
	say := func(level slog.Level, message string, dropped uint64) {
		n.tell(event{tell: func(uint64) { n.log(n.logger, time.Time{}, level, message) }, dropped: dropped})
	}
	say(slog.LevelInfo, "unheard", 3)
	say(slog.LevelWarn, "heard", 2)
	say(slog.LevelWarn, "next", 0)
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
		simulatedAs(t, name, 1, func(t *testing.T, m *memory) {
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
		each(m.nodes, (*redistest.Node).DropConns)
		_ = lock.Release(context.Background())
		time.Sleep(time.Minute)
		closeNow(t, c)
		require.Contains(t, out.String(), "WRONGPASS")
		require.Contains(t, out.String(), "NOPERM")
		requireSecret(t, out.String(), lock.Token(), "log", logger)
	})
}

func TestJSONNames(t *testing.T) {
	for _, v := range []any{NodeChange{}, Stats{}, CallCounts{}, multiplex.NodeCounts{}} {
		redistest.JSONNames(t, v, 0)
	}
	redistest.JSONNames(t, NodeStatus{}, 3) // Server, which is not filled; Deaths and Sheds are in Counts
}

// A name says the unit of a number.
func TestJSONUnits(t *testing.T) {
	for want, v := range map[string]any{
		`{"node":1,"addr":"a:1","state":"up","at":"1970-01-01T00:00:00Z"}`: NodeChange{Node: 1, Addr: "a:1", State: "up", At: time.Unix(0, 0).UTC()},
		`"reply_time_us":1.5,`:     NodeStatus{ReplyTime: 1500},
		`"quarantine_left_s":2.5,`: NodeStatus{Quarantined: true, QuarantineLeft: 2500 * ms},
		`"quorum_time_us":2.5,`:    Stats{QuorumTime: 2500},
	} {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.Contains(t, string(text), want)
	}
}

// No two resources, sockets or errors look the same that differ in a byte that
// is no UTF-8.
func TestJSONTellsNamesApartThatAreNotUTF8_R19(t *testing.T) {
	redistest.JSONTellsApart(t, func(name string) any { return NodeStatus{Err: errors.New(name)} })
	redistest.JSONTellsApart(t, func(name string) any { return NodeChange{Err: errors.New(name)} })
	redistest.JSONTellsApart(t, func(name string) any {
		node, err := conn.ParseURL("unix:///" + url.PathEscape(name))
		require.NoError(t, err)
		return NodeStatus{Addr: node.String()}
	})
}

// No record and no error has the name of a package but at its beginning, no
// record a number whose unit is not known, and neither has a byte of what
// masters say that is not printable ASCII.
func TestLogsAndErrorsOfHostileMastersArePlain_R27_R31(t *testing.T) {
	const evil = "\x1b]0;evil\x07\x1b[2J\u202e\u009b31m\xff"
	of := func(commands ...string) func(args []string) bool {
		return func(args []string) bool { return slices.Contains(commands, strings.ToUpper(args[0])) }
	}
	seal := func(args []string) bool {
		return len(args) > 1 && strings.EqualFold(args[0], "GET") && strings.Contains(args[1], "redlock:")
	}
	info := "redis_version:" + evil + "\r\nrole:" + evil + "\r\nrun_id:" + evil + "\r\nredis_mode:" + evil + "\r\nmaxmemory_policy:" + evil +
		"\r\nmaster_replid:" + evil + "\r\nmaster_replid2:" + evil + "\r\nsecond_repl_offset:" + evil + "\r\n"
	answer := func(is func(args []string) bool, reply []byte) redistest.Hook {
		return func(_ int, args []string) ([]byte, bool) { return reply, is(args) }
	}
	text, bulk := resp.AppendSimpleError(nil, "ERR "+evil), resp.AppendBulkString(nil, evil)
	for name, hook := range map[string]redistest.Hook{
		"honest":            nil,
		"information":       answer(of("INFO"), resp.AppendBulkString(nil, info)),
		"replica":           answer(of("INFO"), resp.AppendBulkString(nil, "role:slave\r\nrun_id:x\r\nredis_mode:"+evil+"\r\n")),
		"errors at HELLO":   answer(of("HELLO"), text),
		"denied":            answer(of("HELLO", "AUTH"), resp.AppendSimpleError(nil, "WRONGPASS "+evil)),
		"errors of scripts": answer(of("EVALSHA"), text),
		"forbidden":         answer(of("EVALSHA", "SCRIPT"), resp.AppendSimpleError(nil, "NOPERM "+evil)),
		"errors of SET":     answer(of("SET"), text),
		"moved":             answer(of("SET"), resp.AppendSimpleError(nil, "MOVED 1 "+evil)),
		"texts of SET":      answer(of("SET"), bulk),
		"texts of scripts":  answer(of("EVALSHA"), bulk),
		"a client's line":   answer(of("CLIENT"), resp.AppendBulkString(nil, "id=7 addr="+evil+" laddr="+evil+" name="+evil)),
		"a foreign seal":    answer(seal, bulk),
		"a later seal":      answer(seal, resp.AppendBulkString(nil, "redlock-seal 9 "+evil)),
		"a seal of a run":   answer(seal, resp.AppendBulkString(nil, "redlock-seal 1 run_id="+evil+" max_ttl_ms=30000 watched_ms=60000")),
		"errors of GET":     answer(of("GET"), text),
		"another time":      answer(of("TIME"), resp.AppendSimpleError(nil, "ERR "+evil)),
		"no RESP":           answer(func([]string) bool { return true }, []byte(evil+"\r\n")),
		"HTTP":              answer(func([]string) bool { return true }, []byte("HTTP/1.1 400 "+evil+"\r\n\r\n")),
		"holders":           answer(of("SET"), resp.AppendNull(nil)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(t, 3)
				c := m.opened(t, Config{MaxTTL: time.Minute}) // before they lie
				closeNow(t, c)
				for _, n := range m.nodes {
					if hook != nil {
						n.Handle(hook)
					}
				}
				var log records
				c, err := New(t.Context(), m.reach(Config{Logger: slog.New(&log), MaxTTL: time.Minute, Fenced: true, Owner: "web-1"}))
				require.NoError(t, err)
				said := tried(t, m, c)
				each(m.nodes, (*redistest.Node).Restart)
				said = append(said, tried(t, m, c)...)
				closeNow(t, c)
				synctest.Wait()
				assert.Empty(t, log.wrong)
				require.NotEmpty(t, log.all)
				for _, line := range log.all {
					require.Regexp(t, "^redlock: ", line["msg"])
					line["msg"] = line["msg"][len("redlock: "):]
					for _, text := range line {
						require.NotRegexp(t, "(redlock|multiplex|conn|resp): ", text)
						said = append(said, text)
					}
				}
				for _, text := range said {
					require.Empty(t, strings.Trim(text, printableASCII), "%q", text)
					_, rest := strings.CutPrefix(text, "redlock: ")
					require.False(t, rest && strings.Contains(text[1:], "redlock: "), text)
					// An error of a node is of package multiplex.
					for _, inside := range []string{"multiplex: ", "conn: ", "resp: "} {
						require.LessOrEqual(t, strings.LastIndex(text, inside), 0, text)
					}
				}
			})
		})
	}
}

const printableASCII = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

// tried makes calls of each kind, and returns all texts that come of them.
func tried(t *testing.T, m *memory, c *Client) (said []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	note := func(errs ...error) {
		for _, err := range errs {
			if err != nil {
				said = append(said, err.Error())
			}
		}
	}
	note(c.Ready(ctx))
	short := func(call func(ctx context.Context)) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		call(ctx)
	}
	short(func(ctx context.Context) { _, err := c.TryAcquire(ctx, "a", time.Second); note(err) })
	short(func(ctx context.Context) { _, err := c.Acquire(ctx, "b", time.Second); note(err) })
	short(func(ctx context.Context) { _, err := c.All("c", "d").Acquire(ctx, time.Second); note(err) })
	short(func(ctx context.Context) { _, err := c.Fair("e").Acquire(ctx, time.Second); note(err) })
	short(func(ctx context.Context) { _, err := c.Semaphore("f", 2).Acquire(ctx, time.Second); note(err) })
	short(func(ctx context.Context) {
		note(c.Do(ctx, "g", time.Second, func(ctx context.Context) error { <-ctx.Done(); return errors.New("done") }))
	})
	short(func(ctx context.Context) {
		found, err := Inspect(ctx, c, "a")
		note(err)
		for _, n := range found.Nodes {
			note(n.Err)
		}
		text, err := json.Marshal(found.All)
		require.NoError(t, err)
		said = append(said, string(text), found.Owner, found.Holder)
	})
	short(func(ctx context.Context) { _, err := Init(ctx, m.reach(Config{MaxTTL: time.Minute})); note(err) })
	short(func(ctx context.Context) {
		_, err := ResetFence(ctx, m.reach(Config{MaxTTL: time.Minute, Fenced: true}), 0)
		note(err)
	})
	for _, n := range c.Nodes() {
		note(n.Err)
		said = append(said, n.Server.Product, n.Server.Version, n.Deployment, n.Opening, n.QuarantineWhy)
		said = append(said, n.Warnings...)
		text, err := json.Marshal(n)
		require.NoError(t, err)
		said = append(said, string(text))
	}
	return said
}
