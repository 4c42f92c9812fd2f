package redlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// owned returns two clients of nodes in memory, of which so many know SET … NX
// GET.
func owned(t *testing.T, nodes, with int, first, second string) (m *memory, a, b *Client) {
	m = newMemory(t, nodes)
	m.ownerless()
	each(m.nodes[:with], func(n *redistest.Node) { n.Native("NXGET") })
	a, b = m.client(t, Config{Owner: first}), m.client(t, Config{Owner: second})
	for _, c := range []*Client{a, b} {
		require.NoError(t, c.Ready(t.Context()))
	}
	time.Sleep(time.Second)
	return m, a, b
}

// A refusal says who holds the resource, if every node can say it and the
// holder has a label. The nodes get no further command for that.
func TestHeldErrorHasTheOwner(t *testing.T) {
	for name, x := range map[string]struct {
		with          int
		first, second string
		want          string
	}{
		"both have one":           {5, "web-1", "web-2", "web-1"},
		"only the one asks":       {5, "", "web-2", ""},
		"only the one that holds": {5, "web-1", "", ""},
		"a node cannot say it":    {4, "web-1", "web-2", ""},
		"no node can":             {0, "web-1", "web-2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, a, b := owned(t, 5, x.with, x.first, x.second)
				lock := mustAcquire(t, a, "r", 10*time.Second)
				asked := m.nodes[0].Calls("GET")
				_, err := b.TryAcquire(t.Context(), "r", 10*time.Second)
				require.ErrorIs(t, err, ErrHeld)
				if held := (*HeldError)(nil); errors.As(err, &held) {
					require.Equal(t, x.want, held.Owner)
					require.Equal(t, `redlock: "r": resource is held by "web-1"`, err.Error())
				} else {
					require.Equal(t, ErrHeld, err)
					require.Empty(t, x.want)
				}
				require.EqualValues(t, 1, b.Stats().Attempts.Held)
				require.Equal(t, asked, m.nodes[0].Calls("GET"))
				time.Sleep(time.Second)
				require.NoError(t, lock.Release(t.Context()), "the attempt was undone, and the lock was not")
				for _, n := range a.Nodes() {
					require.Equal(t, 1, n.Connects)
				}
			})
		})
	}
}

// A caller that waits is told by push, and its error says who holds the lock.
func TestOwnersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a, b := owned(t, 5, 5, "web-1", "web-2")
		lock := mustAcquire(t, a, "r", 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := b.Acquire(ctx, "r", 10*time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		held := (*HeldError)(nil)
		require.ErrorAs(t, err, &held)
		require.Equal(t, "web-1", held.Owner)
		granted := make(chan time.Time, 1)
		go func() {
			_, err := b.Acquire(t.Context(), "r", 10*time.Second)
			if err == nil {
				granted <- time.Now()
			}
		}()
		time.Sleep(200 * ms)
		released := time.Now()
		require.NoError(t, lock.Release(t.Context()))
		require.Less(t, (<-granted).Sub(released), 50*ms)
		require.Len(t, m.nodes, 5)
	})
}

// A lock of another owner is not released, extended or adopted, whatever the
// token says. The next release is by the owner.
func TestOwnerIsCompared_R9(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a, b := owned(t, 5, 5, "web-1", "web-2")
		lock := mustAcquire(t, a, "r", 10*time.Second)
		stranger, err := b.Adopt("r", lock.Token(), "", 10*time.Second, lock.Until())
		require.NoError(t, err)
		_, err = stranger.Extend(t.Context(), 20*time.Second)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, stranger.Release(t.Context()), ErrNotHeld)
		time.Sleep(time.Second)
		require.Equal(t, 5, m.keys())
		heir, err := m.client(t, Config{Owner: "web-1"}).Adopt("r", lock.Token(), "", 10*time.Second, lock.Until())
		require.NoError(t, err)
		_, err = heir.Extend(t.Context(), 20*time.Second)
		require.NoError(t, err)
		require.NoError(t, heir.Release(t.Context()))
		time.Sleep(time.Second)
		require.Zero(t, m.keys())
	})
}

// The label is in no way a part of what the scripts compare less strictly: on a
// real server too, another label is another value.
func TestScriptsCompareTheOwner_R9(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	token := Token(new(wire.Tokens).Next()).Reveal()
	for _, script := range []string{lua.Release, lua.Extend, lua.Heal, lua.Shorten} {
		_, err := server.Do("SET", "r", token+":web-1", "PX", "60000")
		require.NoError(t, err)
		for _, other := range []string{token, token + ":web-2", token + ":web-11", token + ":"} {
			said, err := server.Do("EVAL", script, "1", "r", other, "90000")
			require.NoError(t, err)
			require.EqualValues(t, 0, said)
		}
		said, err := server.Do("EVAL", script, "1", "r", token+":web-1", "90000")
		require.NoError(t, err)
		require.EqualValues(t, 1, said)
	}
}

// Inspect shows the label and never the token, and of a foreign value neither.
func TestInspectShowsTheOwner_R27(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a, _ := owned(t, 3, 3, "web-1", "")
		lock := mustAcquire(t, a, "r", 10*time.Second)
		const secret = "the password of the program:hunter2"
		m.nodes[2].DB().Set("r", secret, time.Minute)
		found := inspect(t, a, "r")
		require.Equal(t, StateHeld, found.State)
		require.Equal(t, "web-1", found.Owner)
		require.Equal(t, lock.Token().Fingerprint(), found.Holder)
		require.Equal(t, []string{"web-1", "web-1", ""}, []string{found.Nodes[0].Owner, found.Nodes[1].Owner, found.Nodes[2].Owner})
		text, err := json.Marshal(found.All)
		require.NoError(t, err)
		require.Contains(t, string(text), `"owner":"web-1"`)
		held := (&HeldError{Owner: "web-1"}).Error()
		_, err = a.TryAcquire(t.Context(), "r", 10*time.Second)
		for _, shown := range []string{string(text), fmt.Sprintf("%+v", found.All), held, fmt.Sprintf("%+v %v", err, err)} {
			require.NotContains(t, shown, lock.Token().Reveal())
			require.NotContains(t, shown, "password")
			require.NotContains(t, shown, "hunter2")
		}
	})
}

// R17: null grants in one form and refuses in the other.
func TestJudgeSetGet_R17(t *testing.T) {
	for reply, want := range map[string]multiplex.Vote{
		"_\r\n": multiplex.Granted, "$-1\r\n": multiplex.Granted, "$1\r\na\r\n": multiplex.Refused, "$0\r\n\r\n": multiplex.Refused,
		"+OK\r\n": multiplex.Alien, "+a\r\n": multiplex.Alien, ":1\r\n": multiplex.Alien, ":0\r\n": multiplex.Alien,
		"*-1\r\n": multiplex.Alien, "*0\r\n": multiplex.Alien, "#t\r\n": multiplex.Alien, "=5\r\ntxt:a\r\n": multiplex.Alien,
	} {
		require.Equal(t, want, wire.JudgeSetGet(parsed(t, reply)), "%q", reply)
	}
}

// R25: the trial proves what null means: every reply of a server that knows NX
// and GET together is accepted, and each of a server that ignores one of them,
// or knows neither, is not.
func TestTrialOfSetNXGet_R25(t *testing.T) {
	c := encoding(Config{Owner: "web-1"})
	steps := tryClaimForm(c.kinds, "r")
	first := decoded(t, steps[0].Command)[2]
	second := decoded(t, steps[1].Command)[2]
	bulk := func(text string) string { return string(resp.AppendBulkString(nil, text)) }
	for name, x := range map[string]struct {
		replies [3]string
		want    bool
	}{
		"redis 7.0":       {[3]string{"_\r\n", bulk(first), bulk(first)}, true},
		"RESP2":           {[3]string{"$-1\r\n", bulk(first), bulk(first)}, true},
		"ignores GET":     {[3]string{"+OK\r\n", "_\r\n", bulk(first)}, false},
		"ignores NX":      {[3]string{"_\r\n", bulk(first), bulk(second)}, false},
		"sets nothing":    {[3]string{"_\r\n", "_\r\n", "_\r\n"}, false},
		"refuses by null": {[3]string{"_\r\n", "_\r\n", bulk(first)}, false},
		"redis 6.2":       {[3]string{"-ERR syntax error\r\n", "-ERR syntax error\r\n", "_\r\n"}, false},
		"takes it as OK":  {[3]string{"+OK\r\n", bulk(first), bulk(first)}, false},
	} {
		accepted := true
		for i, reply := range x.replies {
			v := parsed(t, reply)
			accepted = accepted && !v.IsError() && steps[i].Check(v) == nil
			require.True(t, steps[i].Optional)
			require.Equal(t, kind.ClaimForms[0].Name, steps[i].Name)
		}
		require.Equal(t, x.want, accepted, name)
	}
	require.Equal(t, []string{"DEL", "r"}, decoded(t, steps[3].Command))
}

// On a real server the trial leaves nothing behind, and a server that knows the
// form names the holder.
func TestOwnerOnRealServers_R25(t *testing.T) {
	servers := redistest.Servers(t, 3)
	a, b := realClient(t, servers, owns("web-1")), realClient(t, servers, owns("web-2"))
	n, err := servers[0].Do("DBSIZE")
	require.NoError(t, err)
	require.EqualValues(t, 0, n, "the trial's key")
	_, lacks := servers[0].Do("SET", "x", "a", "NX", "GET", "PX", "1")
	lock := mustAcquire(t, a, "r", time.Minute)
	_, err = b.TryAcquire(t.Context(), "r", time.Minute)
	require.Equal(t, lacks == nil, errors.As(err, new(*HeldError)))
	require.ErrorIs(t, err, ErrHeld)
	require.NoError(t, lock.Release(t.Context()))
	for _, s := range servers {
		_, err := s.Do("SET", "odd", lock.Token().Reveal()+":\x1b[2Jgone")
		require.NoError(t, err)
	}
	_, err = b.TryAcquire(t.Context(), "odd", time.Minute)
	require.ErrorIs(t, err, ErrHeld)
	require.NotContains(t, err.Error(), "gone", "an owner that cannot be printed is none (R33)")
	for _, s := range servers[:2] {
		_, err := s.Do("RPUSH", "r", "x")
		require.NoError(t, err)
	}
	_, err = a.TryAcquire(t.Context(), "r", time.Minute)
	require.Equal(t, ErrHeld, err, "a key of another type")
	require.Equal(t, 1, a.Nodes()[0].Connects)
}

// parsed returns one reply.
func parsed(t *testing.T, reply string) resp.Value {
	t.Helper()
	r := resp.NewReader(resp.Limits{})
	r.Commit(copy(r.Space(), reply))
	v, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok)
	return v
}

// Another program's value that is longer than a reply may be costs a client of
// real servers one connection to each, and after that it is a lock that is held
// (R32).
func TestALongValueCostsOneConnection_R32(t *testing.T) {
	servers := redistest.Servers(t, 3)
	c := realClient(t, servers, func(config *Config) { config.Owner = "web-1" })
	for _, s := range servers {
		_, err := s.Do("SET", "r", strings.Repeat("x", 1<<20))
		require.NoError(t, err)
	}
	for range 5 {
		_, err := c.TryAcquire(t.Context(), "r", 10*time.Second)
		require.True(t, errors.Is(err, ErrHeld) || errors.Is(err, ErrNoQuorum), "%v", err)
		require.NoError(t, c.Ready(t.Context()))
	}
	_, err := c.TryAcquire(t.Context(), "r", 10*time.Second)
	require.ErrorIs(t, err, ErrHeld)
	for i, n := range c.Nodes() {
		require.LessOrEqual(t, n.Connects, 2, "node %d", i)
	}
}
