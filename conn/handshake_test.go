package conn

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// R21: the commands sent, and their order, in both versions of the protocol.
func TestHandshakeCommands(t *testing.T) {
	full := Endpoint{Username: "u", Password: "p", DB: 2, ClientName: "me"}
	ping := []Step{{Command: resp.AppendCommand(nil, "PING")}}
	rest := "\nCLIENT SETINFO LIB-NAME redmux\nCLIENT SETINFO LIB-VER " + libVersion()
	const ask = "\nCLIENT INFO\nINFO server\nINFO replication\nINFO memory"
	unknown := map[string]string{"HELLO": "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n"}
	for _, c := range []struct {
		name    string
		cfg     Config
		answers map[string]string
		want    []string
	}{
		{"plain", Config{}, nil, []string{"HELLO 3" + rest + ask}},
		{"full", Config{Endpoint: full, Prelude: ping}, nil,
			[]string{"HELLO 3 AUTH u p SETNAME me" + rest + "\nSELECT 2" + ask + "\nPING"}},
		{"password only", Config{Endpoint: Endpoint{Password: "p"}}, nil, []string{"HELLO 3 AUTH default p" + rest + ask}},
		{"user only", Config{Endpoint: Endpoint{Username: "u"}}, nil, []string{"HELLO 3 AUTH u " + rest + ask}},
		{"RESP2 asked for", Config{Endpoint: Endpoint{Protocol: 2, Password: "p"}}, nil,
			[]string{"AUTH p\nCLIENT ID" + rest + ask}},
		{"no HELLO", Config{Endpoint: full, Prelude: ping}, unknown, []string{
			"HELLO 3 AUTH u p SETNAME me" + rest + "\nSELECT 2" + ask + "\nPING",
			"AUTH u p\nCLIENT SETNAME me\nCLIENT ID" + rest + "\nSELECT 2" + ask + "\nPING",
		}},
		{"no RESP3", Config{}, map[string]string{"HELLO": "-NOPROTO unsupported protocol version\r\n"},
			[]string{"HELLO 3" + rest + ask, "CLIENT ID" + rest + ask}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: c.answers}
				conn := s.connect(t, c.cfg)
				got := s.received()
				if len(got) == 2 { // the first connection was abandoned halfway
					assert.True(t, strings.HasPrefix(c.want[0], got[0]), got[0])
					got[0] = c.want[0]
				}
				assert.Equal(t, c.want, got)
				assert.Equal(t, len(c.want) == 1 && c.cfg.Protocol != 2, conn.Server().Protocol == 3)
				assert.Nil(t, conn.Err())
			})
		})
	}
}

// R22: a property that the node does not reveal is unknown, not a fault.
func TestHandshakeServer(t *testing.T) {
	all := Server{
		ID: 7, ClientAddr: "10.1.2.3:4000", AddrKnown: true, RunID: "00ff", Product: "redis", Version: "7.0.15", Role: "master",
		Mode: "standalone", EvictionPolicy: "noeviction", Protocol: 3, Uptime: 61 * time.Second,
	}
	zeros := strings.Repeat("0", 40)
	noPerm := "-NOPERM this user has no permissions to run the command\r\n"
	for _, c := range []struct {
		name    string
		answers map[string]string
		change  func(s *Server)
	}{
		{"all", nil, func(*Server) {}},
		{"CLIENT INFO forbidden", map[string]string{"CLIENT INFO": noPerm},
			func(s *Server) { s.AddrKnown, s.ClientAddr, s.Forbidden = false, "", []string{"CLIENT INFO"} }},
		{"ids differ behind a proxy", map[string]string{"CLIENT INFO": text3("id=8 addr=a:1 laddr=b:2 fd=3\n")},
			func(s *Server) { s.ID, s.AddrKnown, s.ClientAddr = 0, false, "" }},
		{"CLIENT INFO garbled", map[string]string{"CLIENT INFO": text3("id=x addr=a:1 laddr=b:2 fd=3\n")},
			func(s *Server) { s.ID, s.AddrKnown, s.ClientAddr = 0, false, "" }},
		{"CLIENT INFO without an id", map[string]string{"CLIENT INFO": text3("addr=a:1 laddr=b:2 fd=3\n")},
			func(s *Server) { s.ID, s.AddrKnown, s.ClientAddr = 0, false, "" }},
		{"unix socket with a space", map[string]string{"CLIENT INFO": text3("id=7 addr=/a b:0 laddr=/a b:0 fd=3\n")},
			func(s *Server) { s.ClientAddr = "/a b:0" }},
		{"before laddr", map[string]string{"CLIENT INFO": text3("id=7 addr=a:1 fd=3\n")},
			func(s *Server) { s.ClientAddr = "a:1" }},
		{"INFO forbidden", map[string]string{"INFO server": noPerm, "INFO replication": noPerm, "INFO memory": "-ERR no\r\n"},
			func(s *Server) { s.RunID, s.EvictionPolicy, s.Uptime = "", "", 0 }},
		{"SETINFO known", map[string]string{"CLIENT SETINFO": "+OK\r\n"}, func(*Server) {}},
		{"SETINFO while busy", map[string]string{"CLIENT SETINFO": "-BUSY Redis is busy running a script\r\n"}, func(*Server) {}},
		{"SETINFO while loading", map[string]string{"CLIENT SETINFO": "-LOADING Redis is loading the dataset in memory\r\n"}, func(*Server) {}},
		{"replica", map[string]string{"INFO replication": text3("role:slave\r\n")}, func(s *Server) { s.Role = "replica" }},
		{"never promoted", map[string]string{"INFO replication": text3("role:master\r\nmaster_replid2:" + zeros + "\r\nsecond_repl_offset:-1\r\n")},
			func(s *Server) { s.Unpromoted = true }},
		{"promoted", map[string]string{"INFO replication": text3("role:master\r\nmaster_replid2:" + zeros[1:] + "a\r\nsecond_repl_offset:15\r\n")},
			func(*Server) {}},
		{"promoted, by the id", map[string]string{"INFO replication": text3("role:master\r\nmaster_replid2:a" + zeros[1:] + "\r\nsecond_repl_offset:-1\r\n")},
			func(*Server) {}},
		{"promoted, by the offset", map[string]string{"INFO replication": text3("role:master\r\nmaster_replid2:" + zeros + "\r\nsecond_repl_offset:0\r\n")},
			func(*Server) {}},
		{"no former id", map[string]string{"INFO replication": text3("role:master\r\nsecond_repl_offset:-1\r\n")},
			func(*Server) {}},
		{"cluster", map[string]string{"INFO server": text3("redis_mode:cluster\r\nrun_id:00ff\r\nuptime_in_seconds:61\r\n")},
			func(s *Server) { s.Mode = "cluster" }},
		{"valkey", map[string]string{"INFO server": text3("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nrun_id:1\r\n")},
			func(s *Server) { s.Product, s.Version, s.RunID, s.Uptime = "valkey", "9.1.2", "1", 0 }},
		{"redict", map[string]string{"INFO server": text3("redict_version:7.3.6\r\nredict_mode:cluster\r\nredis_version:7.2.4\r\nrun_id:1\r\n")},
			func(s *Server) {
				s.Product, s.Version, s.Mode, s.RunID, s.Uptime = "redict", "7.3.6", "cluster", "1", 0
			}},
		{"lies", map[string]string{"INFO server": text3("run_id:" + strings.Repeat("\x00", 1000) + "\r\nuptime_in_seconds:9223372036854775807\r\nrun_idx:2\r\nno colon")},
			func(s *Server) { s.RunID, s.Uptime = strings.Repeat("?", 64), 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := all
				c.change(&want)
				assert.Equal(t, want, *(&script{answers: c.answers}).connect(t, Config{}).Server())
			})
		})
	}
}

// A node that answers HELLO 3 by an array, or with another version of RESP,
// goes on in RESP2, over the same connection (R21).
func TestHelloAnsweredInRESP2_R21(t *testing.T) {
	for name, hello := range map[string]string{
		"kvrocks":    "*6\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:7\r\n",
		"a map":      "%2\r\n+proto\r\n:2\r\n+id\r\n:7\r\n",
		"texts":      "*6\r\n+proto\r\n+2\r\n+id\r\n+7\r\n+server\r\n+redis\r\n",
		"no version": "*4\r\n+id\r\n:7\r\n+mode\r\n_\r\n",
		"a liar":     "*4\r\n+proto\r\n:3\r\n+id\r\n:7\r\n",
		"RESP1":      "%2\r\n+proto\r\n:1\r\n+id\r\n:7\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: map[string]string{
					"HELLO": hello, "INFO server": text2("redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:00ff\r\n"),
				}}
				c := s.connect(t, Config{Endpoint: Endpoint{Username: "u", Password: "p", ClientName: "me"}})
				assert.Equal(t, 2, c.Server().Protocol)
				assert.EqualValues(t, 7, c.Server().ID)
				assert.Equal(t, "00ff", c.Server().RunID)
				assert.Len(t, s.received(), 1)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := (&script{answers: map[string]string{"HELLO": "%1\r\n+id\r\n:7\r\n"}}).connect(t, Config{})
		assert.Equal(t, 3, c.Server().Protocol, "a map is RESP3")
	})
}

// What is asked without need may be answered by anything: an error, null, or
// another type. It then stays unknown (R21, R22).
func TestOptionalStepsForgiveEveryReply_R21_R22(t *testing.T) {
	replies := []string{
		"_\r\n", "$-1\r\n", "*-1\r\n", ":1\r\n", ":-5\r\n", "+OK\r\n", "+7\r\n", "-ERR no\r\n", "-NOPERM no\r\n", "-Unsupported\r\n", "!2\r\nno\r\n",
		"*0\r\n", "*2\r\n:1\r\n_\r\n", "%0\r\n", "~1\r\n+a\r\n", "#t\r\n", ",-nan\r\n", "(1\r\n", "$5\r\nid=x \r\n", "=7\r\ntxt:abc\r\n",
	}
	for protocol, steps := range map[int][]string{
		3: {"CLIENT SETINFO", "CLIENT INFO", "INFO server", "INFO replication", "INFO memory", "EXTRA"},
		2: {"CLIENT SETNAME", "CLIENT ID", "CLIENT SETINFO", "CLIENT INFO", "INFO server", "INFO replication", "INFO memory", "EXTRA"},
	} {
		for _, step := range append(steps, "") {
			for _, reply := range replies {
				synctest.Test(t, func(t *testing.T) {
					answers := map[string]string{"EXTRA": "+OK\r\n"}
					if step != "" {
						answers[step] = reply
					} else {
						for _, step := range steps {
							answers[step] = reply
						}
					}
					cfg := Config{Endpoint: Endpoint{Protocol: protocol, ClientName: "me"}}
					cfg.Prelude = []Step{{Command: resp.AppendCommand(nil, "EXTRA"), Optional: true, Check: isOK}}
					c := (&script{answers: answers}).connect(t, cfg)
					assert.Nil(t, c.Err(), "%s %q", step, reply)
				})
			}
		}
	}
}

// What the user may not run is noted, and left out by a dial that is told so:
// each try would leave a denial in ACL LOG. INFO is asked each time, since the
// run id matters (R22).
func TestWhatIsForbiddenIsLeftOut_R22(t *testing.T) {
	const denied = "-NOPERM User u has no permissions to run the command\r\n"
	for protocol, forbidden := range map[int][]string{
		3: {"CLIENT SETINFO", "CLIENT INFO"}, 2: {"CLIENT SETNAME", "CLIENT ID", "CLIENT SETINFO", "CLIENT INFO"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: map[string]string{
				"CLIENT SETNAME": denied, "CLIENT ID": denied, "CLIENT SETINFO": denied, "CLIENT INFO": denied, "INFO server": denied,
			}}
			cfg := Config{Endpoint: Endpoint{Protocol: protocol, ClientName: "me"}}
			c := s.connect(t, cfg)
			assert.Equal(t, forbidden, c.Server().Forbidden)
			cfg.Omit = c.Server().Forbidden
			again := s.connect(t, cfg)
			assert.Equal(t, forbidden, again.Server().Forbidden, "for the dial after that")
			asked := s.received()[1]
			for _, name := range forbidden {
				assert.NotContains(t, "\n"+asked, "\n"+name)
			}
			assert.Contains(t, asked, "INFO server")
		})
	}
}

// A node that refuses HELLO with the client's name gets it without; and a
// refused CLIENT SETNAME is no end (R21).
func TestANodeThatRefusesTheName_R21(t *testing.T) {
	for name, setname := range map[string]string{"knows": "+OK\r\n", "does not know": "-ERR unknown subcommand\r\n", "odd": "_\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: map[string]string{"CLIENT SETNAME": setname}, nameless: "-ERR Syntax error in HELLO option 'SETNAME'\r\n"}
				c := s.connect(t, Config{Endpoint: Endpoint{Password: "p", ClientName: "me"}})
				assert.Equal(t, 3, c.Server().Protocol)
				got := s.received()
				require.Len(t, got, 2)
				assert.True(t, strings.HasPrefix(got[0], "HELLO 3 AUTH default p SETNAME me"), got[0])
				assert.True(t, strings.HasPrefix(got[1], "HELLO 3 AUTH default p\nCLIENT SETNAME me\n"), got[1])
			})
		})
	}
}

// All ways in which a handshake fails: class, step and text.
func TestHandshakeFails(t *testing.T) {
	wrongPass := "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	maxClients := "-ERR max number of clients reached\r\n"
	secret := Endpoint{Username: "u", Password: "hunter2"}
	resp2 := Endpoint{Protocol: 2, Password: "hunter2", DB: 1}
	failing := errors.New("not what I asked for")
	check := func(v resp.Value) error {
		if v.IsOK() {
			return nil
		}
		return failing
	}
	named := Config{Prelude: []Step{{Command: resp.AppendCommand(nil, "PING")}, {Name: "the trial", Command: resp.AppendCommand(nil, "SCRIPT", "LOAD", "return 1")}}}
	prelude := func(check func(resp.Value) error) Config {
		return Config{Prelude: []Step{
			{Command: resp.AppendCommand(nil, "PING")},
			{Command: resp.AppendCommand(nil, "SCRIPT", "LOAD", "return 1"), Check: check},
		}}
	}
	for _, c := range []struct {
		name  string
		cfg   Config
		node  *script
		step  string // of the StepError; "" if there is none
		class Class
		is    error  // nil for any
		text  string // part of the error's
	}{
		{"NOAUTH", Config{}, &script{answers: map[string]string{"HELLO": "-NOAUTH HELLO must be called\r\n"}}, "HELLO", ClassNoAuth, nil, "HELLO refused: NOAUTH "},
		{"WRONGPASS", Config{Endpoint: secret}, &script{answers: map[string]string{"HELLO": wrongPass}}, "HELLO", ClassWrongPass, nil, "WRONGPASS invalid"},
		{"password echoed", Config{Endpoint: secret}, &script{answers: map[string]string{"HELLO": "-ERR bad hunter2\r\n"}}, "HELLO", ClassOther, nil, "bad ***"},
		{"LOADING", Config{}, &script{answers: map[string]string{"HELLO": "-LOADING wait\r\n"}}, "HELLO", ClassLoading, nil, "LOADING wait"},
		{"max clients", Config{}, &script{greet: maxClients, hangUp: true}, "HELLO", ClassMaxClients, nil, "node has too many clients"},
		{"max clients, then silence", Config{}, &script{greet: maxClients}, "HELLO", ClassMaxClients, nil, "node has too many clients"},
		{"max clients, RESP2", Config{Endpoint: Endpoint{Protocol: 2}}, &script{greet: maxClients, hangUp: true}, "CLIENT ID", ClassMaxClients, nil, "too many"},
		{"protected mode", Config{}, &script{greet: "-DENIED Redis is running in protected mode\r\n", hangUp: true}, "HELLO", ClassOther, nil, "protected mode"},
		{"NOPROTO though RESP3 is wanted", Config{Endpoint: Endpoint{Protocol: 3}}, &script{answers: map[string]string{"HELLO": "-NOPROTO x\r\n"}}, "HELLO", ClassNoProto, nil, ""},
		{"HELLO with OK", Config{}, &script{answers: map[string]string{"HELLO": "+OK\r\n"}}, "HELLO", ClassNone, ErrProtocol, "SimpleString"},
		{"HELLO in RESP2 though RESP3 is wanted", Config{Endpoint: Endpoint{Protocol: 3}}, &script{answers: map[string]string{"HELLO": "%1\r\n+proto\r\n:2\r\n"}}, "HELLO", ClassNone, ErrProtocol, "another version"},
		{"HELLO by an array though RESP3 is wanted", Config{Endpoint: Endpoint{Protocol: 3}}, &script{answers: map[string]string{"HELLO": "*2\r\n+proto\r\n:2\r\n"}}, "HELLO", ClassNone, ErrProtocol, "another version"},
		{"HELLO in RESP4", Config{}, &script{answers: map[string]string{"HELLO": "%1\r\n+proto\r\n:4\r\n"}}, "HELLO", ClassNone, ErrProtocol, "another version"},
		{"HELLO with null", Config{}, &script{answers: map[string]string{"HELLO": "_\r\n"}}, "HELLO", ClassNone, ErrProtocol, "Null"},
		{"HELLO with half a pair", Config{}, &script{answers: map[string]string{"HELLO": "*1\r\n+proto\r\n"}}, "HELLO", ClassNone, ErrProtocol, "Array"},
		{"HELLO refused with the name and without", Config{Endpoint: Endpoint{ClientName: "me"}}, &script{answers: map[string]string{"HELLO": "-ERR Syntax error in HELLO option 'SETNAME'\r\n"}}, "HELLO", ClassOther, nil, "Syntax error"},
		{"protected mode in RESP2", Config{Endpoint: Endpoint{Protocol: 2}}, &script{greet: "-DENIED Redis is running in protected mode\r\n", hangUp: true}, "CLIENT ID", ClassOther, nil, "protected mode"},
		{"a password of before 6.0", Config{Endpoint: resp2}, &script{answers: map[string]string{"AUTH": "-ERR invalid password\r\n"}}, "AUTH", ClassWrongPass, nil, "invalid password"},
		{"a proxy without a server", Config{}, &script{answers: map[string]string{"INFO server": "-no upstream host\r\n"}}, "INFO server", ClassUnavailable, nil, "no upstream host"},
		{"SELECT refused", Config{Endpoint: Endpoint{DB: 99}}, &script{answers: map[string]string{"SELECT": "-ERR DB index is out of range\r\n"}}, "SELECT", ClassOther, nil, "out of range"},
		{"SELECT with an integer", Config{Endpoint: Endpoint{DB: 1}}, &script{answers: map[string]string{"SELECT": ":1\r\n"}}, "SELECT", ClassNone, ErrProtocol, "Integer"},
		{"AUTH refused", Config{Endpoint: resp2}, &script{answers: map[string]string{"AUTH": wrongPass}}, "AUTH", ClassWrongPass, nil, ""},
		{"AUTH without password there", Config{Endpoint: resp2}, &script{answers: map[string]string{"AUTH": "-ERR Client sent AUTH, but no password is set\r\n"}}, "AUTH", ClassOther, nil, "no password is set"},
		{"NOAUTH in RESP2", Config{Endpoint: Endpoint{Protocol: 2}}, &script{answers: map[string]string{"CLIENT ID": "-NOAUTH Authentication required.\r\n"}}, "CLIENT ID", ClassNoAuth, nil, ""},
		{"busy for all", Config{}, &script{answers: map[string]string{"CLIENT SETINFO": "-BUSY x\r\n", "CLIENT INFO": "-BUSY x\r\n", "INFO": "-BUSY x\r\n"}}, "CLIENT INFO", ClassBusy, nil, ""},
		{"INFO while busy", Config{}, &script{answers: map[string]string{"INFO server": "-BUSY Redis is busy running a script\r\n"}}, "INFO server", ClassBusy, nil, ""},
		{"a push", Config{}, &script{answers: map[string]string{"INFO server": ">1\r\n+hi\r\n"}}, "", ClassNone, ErrProtocol, "push"},
		{"attributes", Config{}, &script{answers: map[string]string{"INFO server": "|1\r\n+a\r\n+b\r\n" + defaults["INFO server"]}}, "", ClassNone, ErrProtocol, "attributes"},
		{"surplus", Config{}, &script{answers: map[string]string{"INFO memory": defaults["INFO memory"] + "+"}}, "", ClassNone, ErrProtocol, "surplus"},
		{"prelude refused", prelude(nil), &script{answers: map[string]string{"SCRIPT LOAD": "-NOPERM no\r\n"}}, "prelude 1", ClassNoPerm, nil, "prelude 1 refused: NOPERM no"},
		{"a step with a name", named, &script{answers: map[string]string{"SCRIPT LOAD": "-NOPERM no\r\n"}}, "the trial", ClassNoPerm, nil, "the trial refused: NOPERM no"},
		{"prelude unknown, which is no lack of HELLO", prelude(nil), &script{answers: map[string]string{"SCRIPT LOAD": "-ERR unknown command 'SCRIPT'\r\n"}}, "prelude 1", ClassUnknownCommand, nil, "unknown command"},
		{"an optional step, while busy", Config{Prelude: []Step{{Name: "form", Command: resp.AppendCommand(nil, "PING"), Optional: true}}},
			&script{answers: map[string]string{"PING": "-LOADING x\r\n"}}, "form", ClassLoading, nil, "form refused: LOADING x"},
		{"prelude's check, refused", prelude(check), &script{answers: map[string]string{"SCRIPT LOAD": "-NOSCRIPT no\r\n"}}, "prelude 1", ClassNoScript, failing, "NOSCRIPT no"},
		{"prelude's check, answered", prelude(check), &script{answers: map[string]string{"SCRIPT LOAD": ":1\r\n"}}, "prelude 1", ClassNone, failing, failing.Error()},
		{"HTTP", Config{}, &script{greet: "HTTP/1.1 400 Bad Request\r\n\r\n", hangUp: true}, "", ClassNone, nil, "peer speaks HTTP"},
		{"TLS", Config{}, &script{greet: "\x15\x03\x01\x00\x02\x02\x16", hangUp: true}, "", ClassNone, nil, "peer speaks TLS"},
		{"SSH", Config{}, &script{greet: "SSH-2.0-OpenSSH\r\n"}, "", ClassNone, nil, "peer speaks SSH"},
		{"garbage", Config{}, &script{greet: "hello there\r\n"}, "", ClassNone, nil, "peer does not speak RESP"},
		{"garbage later", Config{}, &script{answers: map[string]string{"INFO server": "$7\r\nhunter2!!\r\n"}}, "", ClassNone, nil, "peer does not speak RESP"},
		{"hangs up", Config{}, &script{greet: "+", hangUp: true}, "", ClassNone, io.EOF, "before the answer to HELLO"},
		{"hangs up later", Config{}, &script{greet: defaults["HELLO"], hangUp: true}, "", ClassNone, io.EOF, "before the answer to CLIENT SETINFO"},
		{"silence", Config{}, &script{answers: map[string]string{"HELLO": ""}, greet: "%7\r\n"}, "", ClassNone, os.ErrDeadlineExceeded, "not connected after 5s"},
		{"silence at the end", Config{Endpoint: Endpoint{DialTimeout: time.Second}}, &script{answers: map[string]string{"INFO memory": ""}}, "", ClassNone, os.ErrDeadlineExceeded, "after 1s"},
		{"CLIENT ID is too much", Config{Limits: resp.Limits{Bulk: 10}}, &script{}, "", ClassNone, nil, "peer does not speak RESP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c.cfg.Addr, c.cfg.NetDial = "node.test:6379", c.node.dial
				conn, err := Dial(context.Background(), c.cfg)
				require.Error(t, err)
				assert.Nil(t, conn)

				var outer *Error
				require.ErrorAs(t, err, &outer)
				assert.Equal(t, "node.test:6379", outer.Addr)
				var step *StepError
				if c.step != "" && assert.ErrorAs(t, err, &step) {
					assert.Equal(t, c.step, step.Step)
					assert.Equal(t, c.class, step.Class)
					var refusal *resp.Error
					assert.Equal(t, c.class != ClassNone, errors.As(err, &refusal))
				}
				assert.Equal(t, c.class, ErrorClass(err))
				if c.is != nil {
					assert.ErrorIs(t, err, c.is)
				}
				assert.Contains(t, err.Error(), c.text)
				assert.NotContains(t, err.Error(), "hunter2", "R27")
				if errors.Is(err, ErrUnanswered) {
					assert.LessOrEqual(t, time.Since(start), pingPatience, "a net.Pipe has no room for the look for TLS")
				} else if c.is != os.ErrDeadlineExceeded {
					assert.Zero(t, time.Since(start))
				}
				want := 1
				if errors.Is(err, ErrUnanswered) {
					want = 3 // including the looks for a proxy and for TLS
				} else if c.cfg.ClientName != "" {
					want = 2 // without the name
				}
				assert.Len(t, c.node.received(), want, "no further connection")
			})
		})
	}
}

// Of several steps with one name a single refusal decides, whatever the order
// (R25): a form whose trial has several steps is used only if all succeeded.
func TestStepsWithOneName_R25(t *testing.T) {
	for answers, accepted := range map[[3]bool]bool{
		{true, true, true}: true, {false, true, true}: false, {true, false, true}: false, {true, true, false}: false,
	} {
		var s Server
		s.tried("other", true)
		for _, ok := range answers {
			s.tried("form", ok)
		}
		want := [2][]string{{"other"}, {"form"}}
		if accepted {
			want = [2][]string{{"other", "form"}, nil}
		}
		assert.Equal(t, want, [2][]string{s.Accepted, s.Refused}, "%v", answers)
	}
}

// R22: a replica refuses the commands of the prelude. The error says that the
// node is a replica, once the node has introduced itself, in both versions of
// the protocol. The prelude of an admitted node is checked as usual.
func TestAdmitComesBeforeThePrelude_R22(t *testing.T) {
	objection := errors.New("not a master")
	masters := func(s *Server) error {
		if s.Role != "master" || s.RunID == "" || s.EvictionPolicy == "" {
			return objection
		}
		return nil
	}
	replica := text3("# Replication\r\nrole:slave\r\n")
	writes := []Step{{Command: resp.AppendCommand(nil, "DEL", "k")}}
	for _, c := range []struct {
		name    string
		cfg     Config
		answers map[string]string
		want    error // the error that Admit returns
		step    bool  // a command of the handshake was refused
	}{
		{"replica", Config{Prelude: writes}, map[string]string{"INFO replication": replica, "DEL": "-READONLY no\r\n"}, objection, false},
		{"replica in RESP2", Config{Prelude: writes, Endpoint: Endpoint{Protocol: 2}},
			map[string]string{"INFO replication": replica, "DEL": "-READONLY no\r\n"}, objection, false},
		{"replica without a prelude", Config{}, map[string]string{"INFO replication": replica}, objection, false},
		{"master", Config{Prelude: writes}, map[string]string{"DEL": ":0\r\n"}, nil, false},
		{"master that refuses", Config{Prelude: writes}, map[string]string{"DEL": "-NOPERM no\r\n"}, nil, true},
		{"password wrong", Config{Prelude: writes}, map[string]string{"HELLO": "-WRONGPASS no\r\n"}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: c.answers}
				c.cfg.Addr, c.cfg.NetDial, c.cfg.Admit = "node.test:6379", s.dial, masters
				conn, err := Dial(context.Background(), c.cfg)
				if c.want == nil && !c.step {
					require.NoError(t, err)
					require.NoError(t, conn.Close())
					return
				}
				require.Error(t, err)
				var step *StepError
				assert.Equal(t, c.step, errors.As(err, &step), "%v", err)
				assert.Equal(t, c.want != nil, errors.Is(err, objection), "%v", err)
				var e *Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, "handshake", e.Op)
			})
		})
	}
}

// The servers are told which release of this module a program has.
func TestVersionOfTheModule(t *testing.T) {
	const ours = "github.com/redmux/redmux"
	other := debug.Module{Path: "example.com/service", Version: "v9.0.0"}
	for want, info := range map[string]debug.BuildInfo{
		"v1.2.3": {Main: other, Deps: []*debug.Module{{Path: ours + "/cmd", Version: "v0.1.0"}, {Path: ours, Version: "v1.2.3"}}},
		"v1.2.4": {Main: other, Deps: []*debug.Module{{Path: ours, Version: "v1.2.3", Replace: &debug.Module{Path: "fork", Version: "v1.2.4"}}}},
		"v1.2.5": {Main: debug.Module{Path: ours, Version: "v1.2.5"}},
		"dev":    {Main: debug.Module{Path: ours, Version: "(devel)"}, Deps: []*debug.Module{{Path: "github.com/a/b", Version: "v1.0.0"}}},
	} {
		assert.Equal(t, want, versionIn(&info))
	}
	assert.Equal(t, "dev", versionIn(&debug.BuildInfo{Deps: []*debug.Module{{Path: ours, Version: "v1.2.3", Replace: &debug.Module{Path: "../redmux"}}}}))
}
