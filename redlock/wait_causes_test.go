package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lastingAnswers are what waiting does not change, and what of each the error
// and the log must show. They answer the first command of the handshake.
var lastingAnswers = map[string]string{
	"-DENIED Redis is running in protected mode because protected mode is enabled":      "running in protected mode",
	"-ERR AUTH <password> called without any password configured for the default user.": "called without any password configured",
	"-ERR invalid password":                                  "invalid password",
	"-ERR command is not supported":                          "command is not supported",
	"-ERR Syntax error in HELLO option 'SETNAME'":            "Syntax error in HELLO option",
	"-CROSSSLOT Keys in request don't hash to the same slot": "CROSSSLOT Keys in request",
	"-ERR wrong number of arguments for 'hello' command":     "wrong number of arguments",
	"-Unsupported":                                   "Unsupported",
	"-WHATEVER a later server may say":               "WHATEVER a later server may say",
	"-ERR ERR SELECT is not allowed in cluster mode": "SELECT is not allowed in cluster mode",
	"+OK":                        "reply of type SimpleString",
	"*0":                         "reply of type Array",
	"220 smtp.example.com ESMTP": "does not speak RESP",
}

// passingAnswers may pass by themselves, whenever that is.
var passingAnswers = []string{
	"-LOADING Redis is loading the dataset in memory",
	"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"-CLUSTERDOWN The cluster is down", "-TRYAGAIN Multiple keys request during rehashing of slot",
	"-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	"-NOREPLICAS Not enough good replicas to write.", "-OOM command not allowed when used memory > 'maxmemory'.",
	"-ERR max number of clients reached", "-no upstream host", "-upstream failure", "-ERR Connection refused",
}

// logged reports whether a record's error has the words.
func logged(log *records, words string) bool {
	for _, r := range log.take() {
		if strings.Contains(r["error"], words) {
			return true
		}
	}
	return false
}

// Whatever a node says ends a wait, with the node's own words in the error and
// the log, unless it is on the list of what may pass (R31).
func TestWhatANodeSaysEndsAWait_R31(t *testing.T) {
	for answer, words := range lastingAnswers {
		for call := range waitingCalls(t.Context(), nil) {
			t.Run(answer+"/"+call, func(t *testing.T) {
				log := new(records)
				simulated(t, 3, func(t *testing.T, m *memory) {
					for _, n := range m.nodes[:2] {
						n.Handle(func(_ int, args []string) ([]byte, bool) { return []byte(answer + "\r\n"), args[0] == "HELLO" })
					}
					c := m.client(t, Config{MaxTTL: 10 * time.Second, Logger: slog.New(log)})
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					start := time.Now()
					err := waitingCalls(ctx, c)[call]()
					require.ErrorIs(t, err, ErrNoQuorum)
					require.NotErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorContains(t, err, "waiting cannot fix this")
					require.ErrorContains(t, err, words)
					require.LessOrEqual(t, time.Since(start), 1500*ms)
				})
				require.True(t, logged(log, words), "the log has the node's words")
			})
		}
	}
}

// The same holds for the answer to a command that a client sends later: the
// command was renamed, a slot moved away. The key and the token in it are shown
// neither in the error nor in the log (R27, R31).
func TestWhatANodeSaysToACommandEndsAWait_R27_R31(t *testing.T) {
	for answer, words := range map[string]string{
		"-ERR unknown command 'SET', with args beginning with: 'secret-4711' 'TOKEN' 'NX'": "unknown command 'SET'",
		"-MOVED 866 127.0.0.1:7001":                                     "MOVED",
		"-ASK 866 127.0.0.1:7001":                                       "ASK",
		"-CROSSSLOT Keys in request don't hash to the same slot":        "CROSSSLOT Keys in request don't hash to the same slot",
		"-ERR syntax error near secret-4711":                            "syntax error near ***",
		"-ERR I know TOKEN and 'secret-4711' and `4711`":                "I know *** and *** and `4711`",
		"-NOPERM this user has no permissions to run the 'set' command": "this user has no permissions to run the 'set' command",
	} {
		t.Run(answer, func(t *testing.T) {
			log := new(records)
			simulated(t, 3, func(t *testing.T, m *memory) {
				c := m.client(t, Config{Logger: slog.New(log)})
				var last atomic.Value
				for _, n := range m.nodes[:2] {
					n.Handle(func(_ int, args []string) ([]byte, bool) {
						if args[0] != "SET" {
							return nil, false
						}
						last.Store(args[2])
						return []byte(strings.ReplaceAll(answer, "TOKEN", args[2]) + "\r\n"), true
					})
				}
				_, err := c.Acquire(t.Context(), "secret-4711", time.Second)
				require.ErrorIs(t, err, ErrNoQuorum)
				require.ErrorContains(t, err, "waiting cannot fix this")
				require.ErrorContains(t, err, words)
				var undecided *UndecidedError
				require.ErrorAs(t, err, &undecided)
				require.NotContains(t, undecided.Error(), "secret-4711")
				require.NotContains(t, err.Error(), last.Load())
			})
			for _, r := range log.take() {
				require.NotContains(t, fmt.Sprint(r), "4711", "a key")
			}
		})
	}
}

// What may pass by itself does not end a wait, however long it lasts, whether a
// node says it in the handshake or later. A proxy that ends each connection,
// since it has no server, may have one in a moment (R31).
func TestWhatMayPassDoesNotEndAWait_R31(t *testing.T) {
	for _, answer := range append(passingAnswers, "") {
		for _, command := range []string{"HELLO", "SET"} {
			simulated(t, anyNumber, func(t *testing.T, m *memory) {
				c := m.client(t, Config{Forgetful: true, Logger: slog.New(new(records))})
				for i, n := range m.nodes {
					if n.Refuse(answer, command); answer == "" {
						m.link(i).Cut(redistest.Down, 0)
					}
					n.DropConns()
				}
				w := waits(t.Context(), c, "r")
				time.Sleep(2 * time.Minute)
				require.False(t, w.isDone(), "%s to %s: %v", answer, command, w.err)
				for i, n := range m.nodes {
					n.Refuse("", command)
					m.link(i).Cut(redistest.Down, -1)
				}
				<-w.done
				require.NoError(t, w.err)
			})
		}
	}
}

// failover makes nodes say that they are replicas until the returned function
// is called.
func failover(nodes []*redistest.Node) (over func()) {
	const readOnly = "-READONLY You can't write against a read only replica."
	var ended atomic.Bool
	for _, n := range nodes {
		n.Handle(func(_ int, args []string) ([]byte, bool) {
			return []byte("=14\r\ntxt:role:slave\r\n"), !ended.Load() && args[0] == "INFO" && args[1] == "replication"
		})
		n.Refuse(readOnly, "SET", "EVALSHA")
	}
	return func() {
		ended.Store(true)
		for _, n := range nodes {
			n.Refuse("", "SET", "EVALSHA")
		}
	}
}

// During a failover a master's address leads to a replica for a while. That
// ends no wait of a client that has known the master, neither while it stays
// connected nor when it comes back. If it lasts, it was no failover (R31).
func TestAFailoverDoesNotEndAWait_R31(t *testing.T) {
	for name, reconnects := range map[string]bool{"connected": false, "reconnected": true} {
		t.Run(name, func(t *testing.T) {
			for _, lasts := range []time.Duration{20 * time.Second, time.Hour} {
				simulated(t, anyNumber, func(t *testing.T, m *memory) {
					c := m.client(t, Config{Forgetful: true, Logger: slog.New(new(records))})
					over := failover(m.nodes)
					if reconnects {
						each(m.nodes, (*redistest.Node).DropConns)
					}
					start := time.Now()
					w := waits(t.Context(), c, "r")
					if lasts == time.Hour {
						<-w.done
						require.ErrorIs(t, w.err, ErrNoQuorum)
						require.ErrorContains(t, w.err, "waiting cannot fix this")
						require.InDelta(t, 30, w.at.Sub(start).Seconds(), 3)
						return
					}
					time.Sleep(lasts)
					over()
					<-w.done
					require.NoError(t, w.err)
				})
			}
		})
	}
}

func notFound(context.Context, string, string) (net.Conn, error) {
	return nil, &net.DNSError{Err: "no such host", Name: "typo", IsNotFound: true}
}

// A name that is not found may be that of a container that starts again. After
// half a minute it is a mistake (R31).
func TestANameThatIsNotFoundEndsAWaitLate_R31(t *testing.T) {
	simulated(t, 1, func(t *testing.T, m *memory) {
		c, err := New(t.Context(), Config{Nodes: Nodes("redis://typo"), Connect: Connect{NetDial: notFound}, Logger: slog.New(new(records))})
		require.NoError(t, err)
		defer closeNow(t, c)
		start := time.Now()
		_, err = c.Acquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "typo: no such host; waiting cannot fix this")
		require.InDelta(t, 30, time.Since(start).Seconds(), 3)
		require.False(t, errors.Is(err, context.DeadlineExceeded))
	})
}

const wrongPassword = "-WRONGPASS invalid username-password pair or user is disabled."

// waitingCalls returns the calls that wait for a quorum.
func waitingCalls(ctx context.Context, c *Client) map[string]func() error {
	return map[string]func() error{
		"Acquire": func() error {
			_, err := c.Acquire(ctx, "a", time.Second)
			return err
		},
		"Hold": func() error {
			_, err := c.Hold(ctx, "h", HoldOptions{TTL: time.Second})
			return err
		},
		"Do": func() error {
			return c.Do(ctx, "d", time.Second, func(context.Context) error { return nil })
		},
		"Locker.Acquire": func() error {
			_, err := c.Fair("f").Acquire(ctx, time.Second)
			return err
		},
		"Ready": func() error { return c.Ready(ctx) },
	}
}

// If a cause that waiting cannot fix affects so many nodes that the rest is no
// quorum, each waiting call ends with ErrNoQuorum after one round of tries.
// With fewer such nodes, beside one that refuses connections, the call keeps
// waiting (R31).
func TestWaitingEndsWhereItCannotHelp_R31(t *testing.T) {
	for name, bad := range map[string]struct {
		node    redistest.NodeConfig
		arrange func(*memory, *redistest.Node)
		within  time.Duration
	}{
		"wrong password": {arrange: func(_ *memory, n *redistest.Node) { n.Refuse(wrongPassword, "HELLO") }, within: 1100 * ms},
		"no password":    {arrange: func(_ *memory, n *redistest.Node) { n.Refuse("-NOAUTH Authentication required.", "HELLO") }, within: 1100 * ms},
		"no permission":  {arrange: func(_ *memory, n *redistest.Node) { n.Refuse(noEvalsha, "EVALSHA") }, within: 1100 * ms},
		"replica":        {node: redistest.NodeConfig{Role: "slave"}, within: 200 * ms},
		"cluster":        {node: redistest.NodeConfig{Mode: "cluster"}, within: 200 * ms},
		"sentinel":       {node: redistest.NodeConfig{Mode: "sentinel"}, within: 200 * ms},
		"another MaxTTL": {arrange: func(m *memory, n *redistest.Node) {
			n.DB().Set(wire.SealName, m.sealOf(n.Process(), time.Hour, 2*time.Hour), 0)
		}, within: 200 * ms},
		"another protocol": {arrange: func(_ *memory, n *redistest.Node) {
			n.Handle(func(int, []string) ([]byte, bool) { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), true })
		}, within: 200 * ms},
	} {
		for call := range waitingCalls(t.Context(), nil) {
			for _, set := range [][2]int{{1, 3}, {2, 3}, {2, 4}} {
				many, of := set[0], set[1]
				t.Run(fmt.Sprintf("%s/%s/%d of %d", name, call, many, of), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						m := newMemory(t, of)
						for i := range many {
							bad.node.Arrangement = m.arrangement
							odd := redistest.NewNode(bad.node)
							if bad.arrange != nil {
								bad.arrange(m, odd)
							}
							defer odd.Close()
							m.nodes[i].Close()
							odd.Serve(m.network.Listen(fmt.Sprintf("odd%d:6379", i)))
							m.nodes[i] = odd
						}
						m.link(2).Refuse(true)
						c := m.client(t, Config{MaxTTL: 10 * time.Second, Logger: slog.New(new(records))})
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						start := time.Now()
						err := waitingCalls(ctx, c)[call]()
						took := time.Since(start)
						require.ErrorIs(t, err, ErrNoQuorum)
						if many == 1 {
							require.ErrorIs(t, err, context.DeadlineExceeded, "a listener may come back")
							return
						}
						require.NotErrorIs(t, err, context.DeadlineExceeded)
						require.Contains(t, err.Error(), "waiting cannot fix this")
						require.LessOrEqual(t, took, bad.within)
					})
				})
			}
		}
	}
}

// Only tries since the start of the call can end it. A call right after the
// password was corrected gets its lock, although the nodes have not been dialed
// since, and may not be for half a minute (R31).
func TestACauseThatWasRemovedIsForgotten_R31(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		each(m.nodes, func(n *redistest.Node) { n.Refuse(wrongPassword, "HELLO") })
		c := m.client(t, Config{Logger: slog.New(new(records))})
		_, err := c.Acquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		time.Sleep(100 * time.Second) // the pauses between dials have reached their maximum
		start := time.Now()
		_, err = c.Acquire(t.Context(), "r", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.LessOrEqual(t, time.Since(start), 31*time.Second, "and each call looks for itself")
		each(m.nodes, func(n *redistest.Node) { n.Refuse("", "HELLO") })
		for _, c := range waitingCalls(t.Context(), c) {
			require.NoError(t, c())
		}
	})
}

// All callers that wait for a resource are told soon, not only the one that
// asks the nodes (R31).
func TestWaitingInTurnEndsToo_R31(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Logger: slog.New(new(records))})
		mustAcquire(t, c, "r", 3*time.Second)
		var all []*waiting
		for range 100 {
			all = append(all, waits(t.Context(), c, "r"))
		}
		time.Sleep(time.Second)
		for _, n := range m.nodes {
			n.Refuse(wrongPassword, "HELLO")
			n.DropConns()
		}
		start := time.Now()
		for _, w := range all {
			<-w.done
			require.ErrorIs(t, w.err, ErrNoQuorum)
			require.LessOrEqual(t, w.at.Sub(start), 3*time.Second)
		}
	})
}

// If calls wait because nodes do not count, the log says so once, with the
// cause for each node, however many calls wait; and once more when that happens
// again (R31).
func TestWaitingIsReportedOnce_R31(t *testing.T) {
	for name, configured := range map[string]bool{"Logger": true, "slog.Default": false} {
		t.Run(name, func(t *testing.T) {
			log := &records{}
			config := Config{MaxTTL: 10 * time.Second}
			if configured {
				config.Logger = slog.New(log)
			} else {
				before := slog.Default()
				slog.SetDefault(slog.New(log))
				defer slog.SetDefault(before)
			}
			simulated(t, 3, func(t *testing.T, m *memory) {
				c := m.opened(t, config)
				require.NoError(t, c.Ready(t.Context()))
				synctest.Wait()
				reports := func() (all []map[string]string) {
					for _, r := range log.take() {
						if r["msg"] == "redlock: waiting, since too few nodes count" {
							all = append(all, r)
						} else {
							require.True(t, configured, "nothing else is told to the default logger: %v", r)
						}
					}
					return all
				}
				require.Empty(t, reports())
				outage := func(lasts time.Duration) {
					m.link(0).Refuse(true)
					m.nodes[0].DropConns()
					m.nodes[1].Refuse(wrongPassword, "HELLO")
					m.nodes[1].DropConns()
					m.nodes[2].Restart() // quarantined
					ctx, cancel := context.WithCancel(t.Context())
					var wg sync.WaitGroup
					for i := range 100 {
						wg.Go(func() {
							lock, err := c.Acquire(ctx, fmt.Sprint("secret-", i), 2*time.Second)
							assert.ErrorIs(t, err, context.Canceled, "%v", lock)
						})
					}
					time.Sleep(lasts)
					cancel()
					wg.Wait()
					m.link(0).Refuse(false)
					m.nodes[1].Refuse("", "HELLO")
					require.NoError(t, c.Ready(t.Context()))
				}
				each(m.nodes, (*redistest.Node).DropConns)
				lock, err := c.Acquire(t.Context(), "r", time.Second)
				require.NoError(t, err)
				require.NoError(t, lock.Release(t.Context()))
				require.Empty(t, reports(), "a moment is nothing to report")
				outage(8 * time.Second)
				got := reports()
				require.Len(t, got, 1)
				require.Equal(t, "WARN", got[0]["level"])
				for _, part := range []string{"node 0 (node0)", "refused", "node 1 (node1)", "WRONGPASS", "node 2 (node2)", "quarantined"} {
					require.Contains(t, got[0]["error"], m.named(part))
				}
				require.NotContains(t, fmt.Sprint(got), "secret-", "R27")
				require.Equal(t, "3", got[0]["missing"])
				time.Sleep(30 * time.Second)
				mustAcquire(t, c, "r", time.Second)
				outage(8 * time.Second)
				require.Len(t, reports(), 1, "the nodes were there meanwhile, so it is news")
			})
		})
	}
}
