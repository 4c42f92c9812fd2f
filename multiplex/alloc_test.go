//go:build !race

package multiplex

import (
	"fmt"
	"math"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
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

// onSockets starts a group on frugal servers that answer SET like this, and
// none where the answer is "".
func onSockets(t *testing.T, answers ...string) *Group {
	t.Helper()
	return onSocketsOf(t, conn.Failover{}, answers...)
}

func onSocketsOf(t *testing.T, failover conn.Failover, answers ...string) *Group {
	t.Helper()
	// The timeouts allow for a busy machine.
	config := Config{VoteTimeout: 10 * time.Second, ShedAfter: time.Minute}
	if failover.Expected {
		config.MaxTTL = time.Millisecond
	}
	for _, answer := range answers {
		addr := noServer
		if answer != "" {
			addr = frugal(t, answer).Addr().String()
		}
		config.Nodes = append(config.Nodes, conn.Config{Endpoint: conn.Endpoint{Network: "tcp", Addr: addr, Failover: failover}})
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

// Callers allocate nothing: alone, or when eight of them hand the poller's role
// to each other.
func TestAskAllocatesNothing(t *testing.T) {
	const granted, refused = "+OK\r\n", "_\r\n"
	for name, c := range map[string]struct {
		sets []string // what each node answers; "" is noServer
		err  error
	}{
		"all granted":                  {[]string{granted, granted, granted, granted, granted}, nil},
		"one node":                     {[]string{granted}, nil},
		"refused":                      {[]string{refused, refused, refused}, ErrRefused},
		"split":                        {[]string{granted, refused, refused, granted, refused}, ErrRefused},
		"one node down":                {[]string{granted, "", granted}, nil},
		"one node down, refused":       {[]string{refused, "", refused}, ErrRefused},
		"one node answers with errors": {[]string{granted, "-NOREPLICAS no\r\n", granted}, nil},
	} {
		for _, callers := range []int{1, 8} {
			t.Run(fmt.Sprintf("callers=%d/%s", callers, name), func(t *testing.T) {
				g := onSockets(t, c.sets...)
				team := startTeam(t, callers, func(caller int) error { return attempt(g, caller, c.err) })
				// On a busy machine a node falls further behind than before,
				// and then the log needs another round.
				few := 0.05 * float64(callers*attempts)
				require.Less(t, allocations(50, few, team), few, "allocations of all attempts of a turn")
			})
		}
	}
}

// Neither do they where grants are to be confirmed.
func TestConfirmationAllocatesNothing(t *testing.T) {
	for _, callers := range []int{1, 8} {
		g := onSocketsOf(t, conn.Failover{Expected: true, Bound: -1}, "+OK\r\n", "+OK\r\n", "+OK\r\n")
		team := startTeam(t, callers, func(caller int) error { return attempt(g, caller, nil) })
		few := 0.05 * float64(callers*attempts)
		require.Less(t, allocations(50, few, team), few, "allocations of all attempts of a turn")
	}
}

// Posting allocates nothing once pools and buffers have reached their sizes.
func TestPostingAllocatesNothing(t *testing.T) {
	g := onSockets(t, "+OK\r\n", "+OK\r\n", "+OK\r\n")
	inbox, room := NewOutcomes(), make([]Outcome, 0, 64)
	command := Command{Encoded: raw(extendCommand("k", "t", long)), TTL: long}
	post := func() {
		for range 64 {
			if _, err := g.PostExtension(extendKind, &command, Posting{Inbox: inbox, Tag: &command}); err != nil {
				t.Error(err)
			}
		}
		g.Flush()
		for left := 64; left > 0; left -= len(inbox.Take(room)) {
			<-inbox.Ready()
		}
	}
	require.Less(t, allocations(20, 0.5, post), 0.5, "allocations for 64 posted commands")
}

// Nothing is allocated by passes over a deployment that is settled.
func TestSettledDeploymentCostsNothing(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		c.opened()
		require.NoError(t, c.group.Ready(background))
		c.group.mu.Lock()
		defer c.group.mu.Unlock()
		now := c.group.now()
		require.Zero(t, testing.AllocsPerRun(100, func() {
			now += 3 * time.Second
			c.group.members.TendDeployment(now)
		}))
	}, withTrust, sealedAll)
}

// A task is what one caller claims, extends and releases.
type task struct {
	set, extend, release []byte
	undo                 func([]byte) Encoded
}

var tasks = func() (all [8]task) {
	for i := range all {
		key, token := fmt.Sprint("a resource of some length ", i), "01234567890123456789"
		release := releaseCommand(key, token)
		all[i] = task{setCommand(key, token, long), extendCommand(key, token, long), release, undoing(raw(release))}
	}
	return all
}()

// attempts is how many attempts each caller makes in its turn.
const attempts = 10

// attempt claims, extends and releases a few times, or is refused as often.
func attempt(g *Group, caller int, want error) error {
	do := &tasks[caller]
	for range attempts {
		receipt, err := g.Claim(background, claimKind, &Claim{Bytes: do.set, TTL: long, Undo: do.undo})
		if err != want {
			return err
		}
		if err != nil {
			continue
		}
		if _, err := g.Extend(background, extendKind, &Command{Encoded: raw(do.extend), TTL: long}); err != nil {
			return err
		}
		if err := g.Release(background, releaseKind, &Command{Encoded: raw(do.release), TTL: long, Receipt: receipt}); err != nil {
			return err
		}
	}
	return nil
}

// startTeam starts goroutines that each call do once whenever the returned
// function is called, which waits for all of them: starting goroutines would
// allocate.
func startTeam(t *testing.T, size int, do func(member int) error) func() {
	t.Helper()
	begin := make([]chan struct{}, size)
	done := make(chan error, size)
	var members sync.WaitGroup
	for i := range size {
		begin[i] = make(chan struct{}, 1)
		members.Go(func() {
			for range begin[i] {
				done <- do(i)
			}
		})
	}
	t.Cleanup(func() {
		for _, b := range begin {
			close(b)
		}
		members.Wait()
	})
	return func() {
		for _, b := range begin {
			b <- struct{}{}
		}
		for range begin {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
}
