package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
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
		"-ERR unknown command 'SET', with args beginning with: 'secret-4711' '%[2]s' 'NX'": "unknown command 'SET'",
		"-MOVED 866 127.0.0.1:7001":                                     "MOVED",
		"-ASK 866 127.0.0.1:7001":                                       "ASK",
		"-CROSSSLOT Keys in request don't hash to the same slot":        "CROSSSLOT Keys in request don't hash to the same slot",
		"-ERR syntax error near secret-4711":                            "syntax error near ***",
		"-ERR I know %[2]s and 'secret-4711' and `4711`":                "I know *** and *** and `4711`",
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
						token := args[2]
						last.Store(token)
						return []byte(fmt.Sprintf(strings.ReplaceAll(answer, "%[2]s", "%s")+"\r\n", both(answer, token)...)), true
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

// both returns the token for an answer that quotes it.
func both(answer, token string) (all []any) {
	for range strings.Count(answer, "%[2]s") {
		all = append(all, token)
	}
	return all
}

// What may pass by itself does not end a wait, however long it lasts, whether a
// node says it in the handshake or later (R31).
func TestWhatMayPassDoesNotEndAWait_R31(t *testing.T) {
	for _, answer := range passingAnswers {
		for _, command := range []string{"HELLO", "SET"} {
			t.Run(answer+"/"+command, func(t *testing.T) {
				simulated(t, anyNumber, func(t *testing.T, m *memory) {
					c := m.client(t, Config{Forgetful: true, Logger: slog.New(new(records))})
					for _, n := range m.nodes {
						n.Refuse(answer, command)
						n.DropConns()
					}
					w := waits(t.Context(), c, "r")
					time.Sleep(2 * time.Minute)
					select {
					case <-w.done:
						t.Fatalf("the wait ended: %v", w.err)
					default:
					}
					for _, n := range m.nodes {
						n.Refuse("", command)
					}
					<-w.done
					require.NoError(t, w.err)
				})
			})
		}
	}
}

// A proxy that ends each connection, since it has no server, may have one in a
// moment (R31).
func TestAProxyWithoutAServerDoesNotEndAWait_R31(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Forgetful: true, Logger: slog.New(new(records))})
		for i, n := range m.nodes {
			m.link(i).Cut(redistest.Down, 0)
			n.DropConns()
		}
		w := waits(t.Context(), c, "r")
		time.Sleep(time.Minute)
		for i := range m.nodes {
			m.link(i).Cut(redistest.Down, -1)
		}
		<-w.done
		require.NoError(t, w.err)
	})
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
						for _, n := range m.nodes {
							n.DropConns()
						}
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
