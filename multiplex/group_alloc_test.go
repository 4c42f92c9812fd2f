//go:build !race

package multiplex

import (
	"math"
	"net"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// frugal is a server on a real socket that allocates nothing after the
// handshake, so that the counted allocations are the client's. It answers SET
// with set, scripts with 1, and knows nothing else.
func frugal(t *testing.T, set string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answerAll(c, set)
		}
	}()
	return l
}

func answerAll(c net.Conn, set string) {
	defer func() { _ = c.Close() }()
	in := resp.NewReader(resp.Limits{})
	out := make([]byte, 0, 64<<10)
	for {
		v, ok, err := in.Next()
		switch {
		case err != nil:
			return
		case !ok:
			if _, err := c.Write(out); err != nil {
				return
			}
			out = out[:0]
			if _, err := in.Fill(c); err != nil {
				return
			}
			continue
		}
		for name := range v.Elements() {
			switch string(name.Bytes()) {
			case "SET":
				out = append(out, set...)
			case "EVALSHA":
				out = append(out, ":1\r\n"...)
			case "HELLO":
				out = resp.AppendMap(out, 2)
				out = resp.AppendBulkString(out, "proto")
				out = resp.AppendInteger(out, 3)
				out = resp.AppendBulkString(out, "id")
				out = resp.AppendInteger(out, 1)
			default:
				out = append(out, "-ERR unknown command\r\n"...)
			}
			break
		}
	}
}

// onSockets starts a group on real sockets. addrs are addresses of servers, or
// noServer.
func onSockets(t *testing.T, addrs ...string) *Group {
	t.Helper()
	// The timeouts allow for a busy machine.
	config := Config{VoteTimeout: 10 * time.Second, ShedAfter: time.Minute}
	for _, addr := range addrs {
		config.Nodes = append(config.Nodes, conn.Config{Endpoint: conn.Endpoint{Network: "tcp", Addr: addr}})
	}
	g, err := New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close(background) })
	require.NoError(t, g.WaitTried(background))
	require.NoError(t, g.Ready(background))
	return g
}

// allocations counts what f allocates per call, in any goroutine, in the best
// of several runs: whenever a node's reader falls further behind than ever
// before, the log needs a few more rounds, and a dial of a node that is down
// allocates once in a while. It makes more runs while none is below enough: on
// a slow machine each run may have a dial.
func allocations(calls int, enough float64, f func()) float64 {
	for range calls {
		f() // lets buffers reach their sizes
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	best := math.Inf(1)
	for run := 0; run < 8 || run < 60 && best >= enough; run++ {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			f()
		}
		runtime.ReadMemStats(&after)
		best = min(best, float64(after.Mallocs-before.Mallocs)/float64(calls))
	}
	return best
}

// noServer is an address that refuses connections. A port that was just given
// back might be in use by another test.
const noServer = "127.0.0.1:1"

func TestAskAllocatesNothing(t *testing.T) {
	const granted, refused = "+OK\r\n", "_\r\n"
	table := []struct {
		name string
		sets []string // what each node answers; "" is noServer
		err  error
	}{
		{"all granted", []string{granted, granted, granted}, nil},
		{"one node", []string{granted}, nil},
		{"refused", []string{refused, refused, refused}, ErrRefused},
		{"split", []string{granted, refused, refused, granted, refused}, ErrRefused},
		{"one node down", []string{granted, "", granted}, nil},
		{"one node down, refused", []string{refused, "", refused}, ErrRefused},
		{"one node answers with errors", []string{granted, "-NOREPLICAS no\r\n", granted}, nil},
	}
	set, release := setCommand("resource", "01234567890123456789", long), releaseCommand("resource", "01234567890123456789")
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			var addrs []string
			for _, answer := range c.sets {
				if answer == "" {
					addrs = append(addrs, noServer)
					continue
				}
				addrs = append(addrs, frugal(t, answer).Addr().String())
			}
			g := onSockets(t, addrs...)
			undo := undoing(raw(release))
			pair := func() {
				receipt, err := g.Claim(background, claimKind, &Claim{Bytes: set, TTL: long, Undo: undo})
				if err != c.err {
					t.Fatal(err)
				}
				if err != nil {
					return // the undo is sent
				}
				if err := g.Release(background, releaseKind, &Command{
					Encoded: raw(release), TTL: long, Receipt: receipt,
				}); err != nil {
					t.Fatal(err)
				}
			}
			const few = 0.1
			require.Less(t, allocations(500, few, pair), few, "allocations per attempt and release")
		})
	}
}
