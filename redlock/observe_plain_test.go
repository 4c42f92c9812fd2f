package redlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A scribe keeps the text of each record, and what is wrong with its form.
type scribe struct {
	mu           sync.Mutex
	texts, wrong []string
}

func (s *scribe) Enabled(context.Context, slog.Level) bool { return true }
func (s *scribe) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *scribe) WithGroup(string) slog.Handler            { return s }

// counts are the attributes that are numbers without a unit.
var counts = []string{"node", "nodes", "quorum", "missing", "dropped"}

func (s *scribe) Handle(_ context.Context, r slog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := r.Message
	if !strings.HasPrefix(r.Message, "redlock: ") {
		s.wrong = append(s.wrong, "without the package's name: "+r.Message)
	}
	r.Attrs(func(a slog.Attr) bool {
		switch kind := a.Value.Kind(); kind {
		case slog.KindString:
		case slog.KindInt64, slog.KindUint64:
			if !slices.Contains(counts, a.Key) {
				s.wrong = append(s.wrong, "a number without a unit: "+a.Key)
			}
		default:
			// A Handler for JSON writes a Duration as a number of nanoseconds.
			s.wrong = append(s.wrong, fmt.Sprintf("%s is a %v", a.Key, kind))
		}
		text += " " + a.Key + "=" + a.Value.String()
		return true
	})
	s.texts = append(s.texts, text)
	return nil
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
				var log scribe
				c, err := New(t.Context(), m.reach(Config{Logger: slog.New(&log), MaxTTL: time.Minute, Fenced: true, Owner: "web-1"}))
				require.NoError(t, err)
				said := tried(t, m, c)
				for _, n := range m.nodes {
					n.Restart()
				}
				said = append(said, tried(t, m, c)...)
				closeNow(t, c)
				synctest.Wait()
				log.mu.Lock()
				defer log.mu.Unlock()
				assert.Empty(t, log.wrong)
				require.NotEmpty(t, log.texts)
				for _, text := range log.texts {
					require.NotContains(t, text, "multiplex: ")
				}
				for _, text := range append(said, log.texts...) {
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
