package redlock

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// hostileNames would be commands if a length were ever wrong (R19).
var hostileNames = []string{
	"invoice:7", "\r\n", "a\r\nFLUSHALL\r\n", "$5\r\n", "*1\r\n$8\r\nFLUSHALL\r\n", "\x00", "a\x00b", "\xff\xfe", " ", `"`, "'", "{a}b",
	"$-1\r\n", "+OK", "été", strings.Repeat("k", 1024), strings.Repeat("\r\n", 512), strings.Repeat("\x00", 1024),
}

// Each command is what the server expects, byte for byte, whatever the bytes of
// prefix and name, and tells where its key stands (R19). A native release has
// the form that its server knows (R25).
func TestCommandsCarryAnyNameWhole(t *testing.T) {
	var source wire.Tokens
	for _, prefix := range []string{"", "lock:", "p\r\n$1\r\n"} {
		c := encoding(Config{Prefix: prefix, Owner: "web-1"})
		for _, name := range hostileNames {
			of := wire.Value{Label: "the label"}
			c.kinds.NewToken(&of, &source, time.Now())
			value, key := secretOf(of.Token)+":web-1 the label", prefix+name
			release := c.kinds.Encoder.Release(nil, name, &of)
			extend := c.kinds.Encoder.Extend(nil, name, &of, ms, 2*ms)
			both := []string{name, "another"}
			for _, x := range []struct {
				got  []byte
				want []string
			}{
				{c.kinds.Set(nil, name, &of, 1500*ms).Bytes, []string{"SET", key, value, "NX", "PX", "1500"}},
				{c.kinds.Set(nil, name, &of, pure.LongestTTL).Bytes, []string{"SET", key, value, "NX", "PX", "3153600000000"}},
				{release.Bytes, []string{"EVALSHA", wire.Release.Digest, "1", key, value}},
				{extend.Bytes, []string{"EVALSHA", wire.Extend.Digest, "1", key, value, "1", "2"}},
				{c.kinds.Several(nil, &wire.ExtendAll, both, &of, time.Second, time.Minute).Bytes,
					[]string{"EVALSHA", wire.ExtendAll.Digest, "2", key, prefix + "another", value, "1000", "60000"}},
				{c.kinds.Several(nil, &wire.ReleaseAll, both, &of).Bytes,
					[]string{"EVALSHA", wire.ReleaseAll.Digest, "2", key, prefix + "another", value}},
				{kind.ReleaseForms[0].Append(nil, release), []string{"DELEX", key, "IFEQ", value}},
				{kind.ReleaseForms[1].Append(nil, release), []string{"DELIFEQ", key, value}},
			} {
				require.Equal(t, resp.AppendCommand(nil, x.want...), x.got, "byte for byte")
				require.Equal(t, x.want, decoded(t, x.got), "by the decoder")
			}
			for _, command := range []multiplex.Encoded{release, extend} {
				require.Equal(t, resp.AppendBulkString(nil, key), command.Bytes[command.Key.From:command.Key.To])
			}
		}
	}
}

// decoded reads exactly one command.
func decoded(t *testing.T, b []byte) []string {
	t.Helper()
	r := resp.NewReader(resp.Limits{})
	for rest := b; len(rest) > 0; {
		n := copy(r.Space(), rest)
		r.Commit(n)
		rest = rest[n:]
	}
	v, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, resp.Array, v.Type())
	var args []string
	for e := range v.Elements() {
		require.Equal(t, resp.BulkString, e.Type())
		args = append(args, string(e.Bytes()))
	}
	require.Zero(t, r.Buffered(), "bytes behind the command")
	return args
}

// Every form of reply, and its meaning as an answer to SET, to a script, and to
// a script that tells why it refuses (R16, R17). What is not named is none.
func TestJudgement(t *testing.T) {
	const granted, refused = multiplex.Granted, multiplex.Refused
	judges := map[string]struct {
		judge func(resp.Value) multiplex.Vote
		means map[string]multiplex.Vote
	}{
		"SET":    {wire.JudgeSet, map[string]multiplex.Vote{"+OK": granted, "_": refused, "$-1": refused}},
		"script": {wire.JudgeScript, map[string]multiplex.Vote{":1": granted, ":01": granted, ":0": refused}},
		"telling": {wire.JudgeTelling, map[string]multiplex.Vote{
			":1": granted, ":01": granted, "$2\r\n1 ": refused, "$4\r\n64 x": refused, "$5\r\n2 a b": refused,
		}},
	}
	replies := []string{ // package multiplex does not pass errors to a judge
		"*-1", ":2", ":-1", "+ok", "+OKAY", "+O", "+", "+QUEUED", "+1", "+1 ", "$2\r\nOK", "$1\r\n1", "$0\r\n", "=6\r\ntxt:OK",
		"=6\r\ntxt:1 ", "*1\r\n+OK", "*1\r\n:1", "*0", "~1\r\n:1", "%1\r\n+OK\r\n+OK", ">1\r\n+OK", "#t", "#f", ",1", ",nan", "(1",
		"-ERR no", "!6\r\nERR no", "$2\r\n0 ", "$3\r\n65 ", "$3\r\n-1 ", "$3\r\n+1 ", "$2\r\n x",
	}
	for _, j := range judges {
		replies = slices.AppendSeq(replies, maps.Keys(j.means))
	}
	for name, j := range judges {
		for _, reply := range replies {
			want, named := j.means[reply]
			if !named {
				want = multiplex.Alien
			}
			require.Equal(t, want, j.judge(parsed(t, reply+"\r\n")), "%q to %s", reply, name)
		}
		require.Equal(t, multiplex.Alien, j.judge(resp.Value{}), name)
	}
}

// R25: locks whose nodes have the command are released by it, both by an
// awaited release and by the undo of a failed attempt, and extended by the
// script.
func TestLocksAreReleasedNatively_R25(t *testing.T) {
	for _, form := range []string{"DELEX", "DELIFEQ"} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(t, 3)
			for _, n := range m.nodes {
				n.Native(form)
			}
			c := m.client(t, Config{})
			require.NoError(t, c.Ready(t.Context()))
			time.Sleep(time.Second)
			require.Equal(t, form, c.Stats().ReleaseForm)
			trials, scripts := m.nodes[0].Calls(form), m.nodes[0].Calls("EVALSHA")
			lock, err := c.TryAcquire(t.Context(), "r", 10*time.Second)
			require.NoError(t, err)
			_, err = c.TryAcquire(t.Context(), "r", 10*time.Second)
			require.Equal(t, ErrHeld, err)
			lock, err = lock.Extend(t.Context(), 20*time.Second)
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
			require.ErrorIs(t, lock.Release(t.Context()), ErrNotHeld)
			synctest.Wait()
			require.Zero(t, m.keys())
			require.Equal(t, trials+3, m.nodes[0].Calls(form))
			require.Equal(t, scripts+1, m.nodes[0].Calls("EVALSHA"), "the extension")
		})
	}
}

const noEvalsha = "-NOPERM this user has no permissions to run the 'evalsha' command"

// Each refusal says what was found and what to change, names no key and no
// secret, and is overridden only by its own switch (R22, R27).
func TestPreflight_R22(t *testing.T) {
	all := Allow{
		SameServer: true, Replica: true, Cluster: true, Sentinel: true, Eviction: true, MissingPermissions: true, OtherMaxTTL: true,
	}
	for name, c := range map[string]struct {
		node    redistest.NodeConfig
		arrange func(*memory, *redistest.Node)
		only    Allow // accepts it
		others  func(*Allow)
		is      error
		says    []string
		warning string // once it is accepted
	}{
		"replica": {
			node: redistest.NodeConfig{Role: "slave"}, only: Allow{Replica: true}, others: func(a *Allow) { a.Replica = false },
			is: multiplex.ErrNotMaster, says: []string{"its role is replica", "name a master", "redis+sentinel:", "Allow.Replica"},
		},
		"cluster": {
			node: redistest.NodeConfig{Mode: "cluster"}, only: Allow{Cluster: true}, others: func(a *Allow) { a.Cluster = false },
			is: multiplex.ErrNotMaster, says: []string{"cluster mode", "on its own", "redis+cluster:", "Allow.Cluster"},
		},
		"sentinel": {
			node: redistest.NodeConfig{Mode: "sentinel"}, only: Allow{Sentinel: true}, others: func(a *Allow) { a.Sentinel = false },
			is: multiplex.ErrNotMaster, says: []string{"a sentinel", "redis+sentinel:", "or name a master", "Allow.Sentinel"},
		},
		"another MaxTTL": {
			arrange: func(m *memory, n *redistest.Node) {
				n.DB().Set("lock:"+wire.SealName, m.sealOf(n.Process(), time.Minute, time.Hour), 0)
			},
			only: Allow{OtherMaxTTL: true}, others: func(a *Allow) { a.OtherMaxTTL = false },
			is: ErrMaxTTL, says: []string{"its seal says 1m0s, this client 1s", "Allow.OtherMaxTTL"},
		},
		"no EVALSHA": {
			arrange: func(_ *memory, n *redistest.Node) { n.Refuse(noEvalsha, "EVALSHA") },
			only:    Allow{MissingPermissions: true}, others: func(a *Allow) { a.MissingPermissions = false },
			is: multiplex.ErrPermissions, says: []string{"may not run EVALSHA", "ACL SETUSER", "+evalsha", "Allow.MissingPermissions"},
			warning: "EVALSHA of a script with GET",
		},
		"no SCRIPT LOAD": {
			arrange: func(_ *memory, n *redistest.Node) { n.Refuse(noEvalsha, "SCRIPT LOAD") },
			only:    Allow{MissingPermissions: true}, others: func(a *Allow) { a.MissingPermissions = false },
			is: multiplex.ErrPermissions, says: []string{"may not run SCRIPT LOAD", "+script|load"}, warning: "SCRIPT LOAD",
		},
		"no PEXPIRE": {
			arrange: func(_ *memory, n *redistest.Node) { n.Refuse(noEvalsha, "PEXPIRE") },
			only:    Allow{MissingPermissions: true}, others: func(a *Allow) { a.MissingPermissions = false },
			is: multiplex.ErrPermissions, says: []string{"may not run PEXPIRE", "+pexpire"}, warning: "locks need failed: PEXPIRE (",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(t, 2)
				c.node.Arrangement = m.arrangement
				odd := redistest.NewNode(c.node)
				if c.arrange != nil {
					c.arrange(m, odd)
				}
				odd.Serve(m.network.Listen("odd:6379"))
				defer odd.Close()
				config := Config{Nodes: Nodes(append(m.urls(), "redis://:hunter2@odd")...), Prefix: "lock:", MaxTTL: time.Second}
				status := func(allow Allow) NodeStatus {
					config.Allow = allow
					client := m.client(t, config)
					defer closeNow(t, client)
					return client.Nodes()[2]
				}
				others := all
				c.others(&others)
				for _, allow := range []Allow{{}, others} {
					s := status(allow)
					require.NotEqual(t, NodeUp, s.State)
					require.ErrorIs(t, s.Err, c.is)
					var p *multiplex.PreflightError
					require.ErrorAs(t, s.Err, &p)
					for _, text := range c.says {
						require.Contains(t, s.Err.Error(), text)
					}
					require.NotContains(t, s.Err.Error(), "redlock:trial", "no key (R27)")
					require.NotContains(t, s.Err.Error(), "hunter2")
				}
				s := status(c.only)
				require.Equal(t, NodeUp, s.State)
				require.NoError(t, s.Err)
				require.Contains(t, strings.Join(s.Warnings, "\n"), c.warning)
				require.Equal(t, c.warning == "", s.Warnings == nil)
			})
		})
	}
}

// A client without a permission dials as seldom as one with a wrong password,
// however the server says so: within a script, Redis 7.0 has no class for it
// (R26).
func TestMissingRightsAreTriedSeldom_R26(t *testing.T) {
	for _, says := range []string{noEvalsha, "-ERR The user executing the script can't run this command or subcommand", "-WRONGPASS no"} {
		simulated(t, 3, func(t *testing.T, m *memory) {
			command := "EVALSHA"
			if strings.HasPrefix(says, "-WRONGPASS") {
				command = "HELLO"
			}
			m.nodes[2].Refuse(says, command)
			c := m.client(t, Config{})
			time.Sleep(time.Minute)
			dials := c.Nodes()[2].Counts.Dials
			require.LessOrEqual(t, dials, uint64(7), "%s: after 1, 2, 4, 8, 16 and 30 seconds", says)
			require.GreaterOrEqual(t, dials, uint64(6), says)
		})
	}
}

// Two addresses of one server are two votes if the user allows it; they need
// two databases, since their keys must not collide (R22).
func TestSameServerIsAllowed_R22(t *testing.T) {
	simulated(t, 2, func(t *testing.T, m *memory) {
		m.usual()
		m.nodes[0].Serve(m.network.Listen("alias:6379"))
		refused := m.client(t, Config{Nodes: Nodes(m.urls()[0], "redis://alias", m.urls()[1])})
		for _, s := range refused.Nodes()[:2] {
			if s.State != "up" {
				require.ErrorIs(t, s.Err, multiplex.ErrSameNode)
				require.Contains(t, s.Err.Error(), "the run id is that of the server at ")
				require.Contains(t, s.Err.Error(), "Allow.SameServer")
			}
		}
		config := Config{Nodes: Nodes(m.urls()[0], "redis://alias/1", m.urls()[1])}
		config.Allow.SameServer = true
		c := m.client(t, config)
		m.link(1).Refuse(true)
		m.nodes[1].DropConns()
		time.Sleep(100 * ms)
		lock := mustAcquire(t, c, "r", time.Second)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// A server that may evict keys is warned about and not refused; a property that
// may not be queried is no fault (R22).
func TestEvictionIsWarnedAbout_R22(t *testing.T) {
	for name, c := range map[string]struct {
		policy string
		hidden bool
		allow  Allow
		warns  bool
	}{
		"noeviction":   {policy: "noeviction"},
		"allkeys-lru":  {policy: "allkeys-lru", warns: true},
		"volatile-lru": {policy: "volatile-lru", warns: true},
		"allowed":      {policy: "allkeys-lru", allow: Allow{Eviction: true}},
		"hidden":       {policy: "allkeys-lru", hidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(t, 2)
				odd := redistest.NewNode(redistest.NodeConfig{Arrangement: m.arrangement, EvictionPolicy: c.policy})
				if c.hidden {
					odd.Refuse("-NOPERM no", "INFO")
				}
				odd.Serve(m.network.Listen("odd:6379"))
				defer odd.Close()
				client := m.client(t, Config{Nodes: Nodes(append(m.urls(), "redis://odd")...), Allow: c.allow})
				s := client.Nodes()[2]
				require.Equal(t, NodeUp, s.State)
				if !c.warns {
					require.Empty(t, s.Warnings)
					return
				}
				require.Len(t, s.Warnings, 1)
				require.Contains(t, s.Warnings[0], "maxmemory-policy is "+c.policy)
				require.Contains(t, s.Warnings[0], "set noeviction")
				require.Empty(t, client.Nodes()[0].Warnings)
			})
		})
	}
}

// Steps are named by their commands. The trials of native releases come first,
// and may fail.
func TestStepNames_R27(t *testing.T) {
	names := make(map[string]bool)
	c := encoding(Config{Prefix: "secret:"})
	for i, step := range prelude(c.config, c.kinds) {
		if names[step.Name] = true; i < len(kind.ReleaseForms) {
			require.Equal(t, kind.ReleaseForms[i].Name, step.Name)
			require.True(t, step.Optional)
		}
		require.Contains(t, string(step.Command), "\r\n"+strings.Fields(step.Name)[0]+"\r\n")
	}
	require.Equal(t, map[string]bool{
		"DELEX": true, "DELIFEQ": true, "SCRIPT LOAD": true, "EVALSHA of a script with GET": true, "DEL": true, "PTTL": true, "PEXPIRE": true,
	}, names)
}
