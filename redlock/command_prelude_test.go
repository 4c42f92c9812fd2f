package redlock

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

const noEvalsha = "-NOPERM this user has no permissions to run the 'evalsha' command"

// Each refusal says what was found and what to change, names no key and no
// secret, and is overridden only by its own switch (R22, R27).
func TestPreflight_R22(t *testing.T) {
	all := Allow{
		SameServer: true, Replica: true, Cluster: true, Sentinel: true, Eviction: true, MissingPermissions: true, OtherMaxTTL: true,
	}
	for name, c := range map[string]struct {
		node    redistest.NodeConfig
		arrange func(*redistest.Node)
		only    Allow // accepts it
		others  func(*Allow)
		is      error
		says    []string
		warning string // once it is accepted
	}{
		"replica": {
			node: redistest.NodeConfig{Role: "slave"}, only: Allow{Replica: true}, others: func(a *Allow) { a.Replica = false },
			is: multiplex.ErrNotMaster, says: []string{"its role is replica", "name a master", "Allow.Replica"},
		},
		"cluster": {
			node: redistest.NodeConfig{Mode: "cluster"}, only: Allow{Cluster: true}, others: func(a *Allow) { a.Cluster = false },
			is: multiplex.ErrNotMaster, says: []string{"cluster mode", "on its own", "Allow.Cluster"},
		},
		"sentinel": {
			node: redistest.NodeConfig{Mode: "sentinel"}, only: Allow{Sentinel: true}, others: func(a *Allow) { a.Sentinel = false },
			is: multiplex.ErrNotMaster, says: []string{"a sentinel", "address of a master", "Allow.Sentinel"},
		},
		"another MaxTTL": {
			arrange: func(n *redistest.Node) {
				n.DB().Set("lock:"+wire.SealName, sealOf(pure.Identity{}, n.Process(), time.Minute, time.Hour), 0)
			},
			only: Allow{OtherMaxTTL: true}, others: func(a *Allow) { a.OtherMaxTTL = false },
			is: ErrMaxTTL, says: []string{"its seal says 1m0s, this client 1s", "Allow.OtherMaxTTL"},
		},
		"no EVALSHA": {
			arrange: func(n *redistest.Node) { n.Refuse(noEvalsha, "EVALSHA") },
			only:    Allow{MissingPermissions: true}, others: func(a *Allow) { a.MissingPermissions = false },
			is: multiplex.ErrPermissions, says: []string{"may not run EVALSHA", "ACL SETUSER", "+evalsha", "Allow.MissingPermissions"},
			warning: "EVALSHA of a script with GET",
		},
		"no SCRIPT LOAD": {
			arrange: func(n *redistest.Node) { n.Refuse(noEvalsha, "SCRIPT LOAD") },
			only:    Allow{MissingPermissions: true}, others: func(a *Allow) { a.MissingPermissions = false },
			is: multiplex.ErrPermissions, says: []string{"may not run SCRIPT LOAD", "+script|load"}, warning: "SCRIPT LOAD",
		},
		"no PEXPIRE": {
			arrange: func(n *redistest.Node) { n.Refuse(noEvalsha, "PEXPIRE") },
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
					c.arrange(odd)
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

func TestStepNames_R27(t *testing.T) {
	names := make(map[string]bool)
	c := encoding(Config{Prefix: "secret:"})
	for _, step := range prelude(c.config, c.kinds) {
		names[step.Name] = true
		require.Contains(t, string(step.Command), "\r\n"+strings.Fields(step.Name)[0]+"\r\n")
	}
	require.Equal(t, map[string]bool{
		"DELEX": true, "DELIFEQ": true, "SCRIPT LOAD": true, "EVALSHA of a script with GET": true, "DEL": true, "PTTL": true, "PEXPIRE": true,
	}, names)
}
