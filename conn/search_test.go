package conn

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A seeded is a network in memory with sentinels s1, s2, … or members of a
// cluster, and servers.
type seeded struct {
	t       testing.TB
	network *redistest.Network
}

func newSeeded(t testing.TB) *seeded {
	s := &seeded{t: t, network: redistest.NewNetwork()}
	t.Cleanup(func() { s.network.Close() })
	return s
}

// node starts a node at an address.
func (s *seeded) node(addr string) *redistest.Node {
	n := redistest.NewNode(redistest.NodeConfig{})
	n.Serve(s.network.Listen(addr))
	s.t.Cleanup(func() { n.Close() })
	return n
}

// sentinels starts one with each answer: an address, or "-", "+" and so on for
// a whole reply, or "" for none.
func (s *seeded) sentinels(answers ...string) {
	for i, answer := range answers {
		s.node(fmt.Sprintf("s%d:26379", i+1)).Handle(func(_ int, args []string) ([]byte, bool) {
			switch args[0] {
			case "AUTH":
				return []byte("+OK\r\n"), true
			case "SENTINEL":
			default:
				return nil, false
			}
			if answer != "" && strings.ContainsAny(answer[:1], "-+*$%:!") {
				return []byte(answer), true
			}
			host, port, _ := net.SplitHostPort(answer)
			if answer == "" {
				return nil, true
			}
			b := resp.AppendArray(nil, 2)
			return resp.AppendBulkString(resp.AppendBulkString(b, host), port), true
		})
	}
}

// dial dials a URL in the network.
func (s *seeded) dial(raw string, change ...func(*Config)) (*Conn, error) {
	e, err := ParseURL(raw)
	require.NoError(s.t, err)
	cfg := Config{Endpoint: e, NetDial: s.network.Dial}
	for _, f := range change {
		f(&cfg)
	}
	c, err := Dial(s.t.Context(), cfg)
	if err == nil {
		s.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

const threeSentinels = "redis+sentinel://s1,s2,s3/m"

// A sentinel that is dead, silent, outdated or lying costs time at most: the
// server that is found says that it is a master (R33).
func TestSentinelsThatAreWrongCostTime_R33(t *testing.T) {
	const here, null = "db:1", "*-1\r\n"
	for name, c := range map[string]struct {
		answers [3]string
		within  time.Duration
	}{
		"all agree":                   {[3]string{here, here, here}, 0},
		"two of three at once":        {[3]string{here, "", here}, 0},
		"one names a replica":         {[3]string{"replica:1", here, here}, 0},
		"two name a replica":          {[3]string{"replica:1", here, "replica:1"}, time.Second},
		"one names a dead server":     {[3]string{"gone:1", here, here}, 0},
		"two name a dead server":      {[3]string{"gone:1", "gone:1", here}, time.Second},
		"two name a silent one":       {[3]string{"silent:1", "silent:1", here}, 3 * time.Second},
		"one answers":                 {[3]string{"", "", here}, time.Second},
		"each another":                {[3]string{"replica:1", "gone:1", here}, time.Second},
		"junk and no such name":       {[3]string{"+OK\r\n", null, here}, 0},
		"junk bytes":                  {[3]string{"!\r\n", "$9999999\r\n", here}, 3 * time.Second},
		"strange addresses":           {[3]string{"*2\r\n$3\r\na b\r\n$1\r\n1\r\n", "*2\r\n$1\r\na\r\n$1\r\n0\r\n", here}, 0},
		"errors":                      {[3]string{"-NOAUTH x\r\n", "-ERR x\r\n", here}, 0},
		"two name one without a role": {[3]string{"mute:1", "mute:1", here}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSeeded(t)
				s.sentinels(c.answers[:]...)
				s.node(here)
				s.node("replica:1").Follow()
				s.node("silent:1").Pause()
				s.node("mute:1").Handle(func(_ int, args []string) ([]byte, bool) {
					switch args[0] {
					case "HELLO":
						return []byte("%1\r\n+proto\r\n:3\r\n"), true
					case "INFO":
						return []byte("-NOPERM no\r\n"), true
					}
					return nil, false
				})
				begun := time.Now()
				conn, err := s.dial(threeSentinels)
				require.NoError(t, err)
				assert.Equal(t, here, conn.Server().Addr)
				assert.Equal(t, "sentinel:s1:26379,s2:26379,s3:26379/m", conn.String())
				assert.LessOrEqual(t, time.Since(begun), c.within)
			})
		})
	}
}

// Where no server is found, the error says what each seed and each server said,
// within DialTimeout, and the most hopeful of them decides whether to wait.
func TestNoServerIsFound_R31(t *testing.T) {
	const null = "*-1\r\n"
	for name, c := range map[string]struct {
		answers [3]string
		texts   []string
		outlook Outlook
	}{
		"no such name": {[3]string{null, null, null}, []string{"the sentinel s1:26379: SENTINEL: it knows no master of this name; the sentinel s2:26379"}, Lasting},
		"a replica": {[3]string{"replica:1", "replica:1", "replica:1"},
			[]string{"dial sentinel:s1:26379,s2:26379,s3:26379/m: the server replica:1: it says that its role is replica"}, Passing},
		"a dead server":   {[3]string{"gone:1", null, null}, []string{"the server gone:1: connection refused"}, Passing},
		"one has it":      {[3]string{null, null, "-ERR x\r\n"}, []string{"the sentinel s3:26379: SENTINEL refused: ERR x"}, Lasting},
		"silence":         {[3]string{"", "", ""}, []string{"not connected after", "the sentinel s1:26379: "}, Passing},
		"a silent server": {[3]string{"silent:1", null, null}, []string{"the server silent:1: not connected after 1.666666666s"}, Passing},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSeeded(t)
				s.sentinels(c.answers[:]...)
				s.node("replica:1").Follow()
				s.node("silent:1").Pause()
				begun := time.Now()
				_, err := s.dial(threeSentinels)
				var e *Error
				require.ErrorAs(t, err, &e)
				for _, text := range c.texts {
					assert.ErrorContains(t, err, text)
				}
				assert.Equal(t, c.outlook, OutlookOf(err))
				assert.LessOrEqual(t, time.Since(begun), 5*time.Second)
			})
		})
	}
}

// The end of the caller's context ends everything at once.
func TestSearchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeeded(t)
		s.sentinels("", "", "")
		e, err := ParseURL(threeSentinels)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err = Dial(ctx, Config{Endpoint: e, NetDial: s.network.Dial})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begun))
	})
}

// The function for credentials is asked once in a Dial, for servers alone: no
// sentinel sees them (R27).
func TestCredentialsAreForServers_R27(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeeded(t)
		s.sentinels("replica:1", "replica:1", "db:1")
		first := s.node("s4:26379")
		first.Handle(func(_ int, args []string) ([]byte, bool) {
			switch args[0] {
			case "AUTH":
				return []byte("+OK\r\n"), true
			case "SENTINEL":
				return resp.AppendNullArray(nil), true
			}
			return nil, false
		})
		s.node("replica:1").Follow()
		db := s.node("db:1")
		var asked atomic.Int32
		_, err := s.dial("redis+sentinel://s1,s2,s3,s4/m?sentinel_username=su&sentinel_password=sp", func(cfg *Config) {
			cfg.Credentials = func(context.Context) (Credentials, error) {
				asked.Add(1)
				return Credentials{Username: "du", Password: "dp"}, nil
			}
		})
		_ = err // the nodes know neither user
		require.EqualValues(t, 1, asked.Load())
		for _, e := range first.Log() {
			require.NotContains(t, strings.Join(e.Args, " "), "dp")
		}
		for _, e := range db.Log() {
			require.NotContains(t, strings.Join(e.Args, " "), "sp")
		}
		require.Contains(t, first.Log()[0].Args, "sp")
	})
}

// members starts servers of a cluster at addresses. Each says which address has
// all slots.
func (s *seeded) members(views map[string]string) map[string]*redistest.Node {
	nodes := map[string]*redistest.Node{}
	for addr, owner := range views {
		nodes[addr] = s.node(addr)
		nodes[addr].Handle(memberOf(addr, owner))
	}
	return nodes
}

func memberOf(addr, owner string) redistest.Hook { return memberNaming(addr, owner, "id of "+owner) }

// memberNaming is memberOf for an owner with an id.
func memberNaming(addr, owner, id string) redistest.Hook {
	return func(_ int, args []string) ([]byte, bool) {
		if args[0] != "CLUSTER" {
			return nil, false
		}
		if args[1] == "MYID" {
			return resp.AppendBulkString(nil, "id of "+addr), true
		}
		host, port, _ := net.SplitHostPort(owner)
		b := resp.AppendInteger(resp.AppendInteger(resp.AppendArray(resp.AppendArray(nil, 1), 3), 0), 16383)
		b = append(resp.AppendBulkString(resp.AppendArray(b, 3), host), ":"+port+"\r\n"...)
		return resp.AppendBulkString(b, id), true
	}
}

// The word of a server about itself outweighs outdated seeds, and leads on.
func TestClusterIsFollowed_R33(t *testing.T) {
	for name, c := range map[string]struct {
		views map[string]string
		want  string
	}{
		"all agree":            {map[string]string{"a:6379": "a:6379", "b:6379": "a:6379", "c:6379": "a:6379"}, "a:6379"},
		"to a server unseeded": {map[string]string{"a:6379": "d:1", "b:6379": "d:1", "c:6379": "d:1", "d:1": "d:1"}, "d:1"},
		"all outdated":         {map[string]string{"a:6379": "d:1", "b:6379": "d:1", "c:6379": "d:1", "d:1": "e:1", "e:1": "e:1"}, "e:1"},
		"most are outdated":    {map[string]string{"a:6379": "b:6379", "b:6379": "c:6379", "c:6379": "c:6379"}, "c:6379"},
		"one is left":          {map[string]string{"c:6379": "c:6379"}, "c:6379"},
		"one lies of itself":   {map[string]string{"a:6379": "a:6379", "b:6379": "c:6379", "c:6379": "c:6379"}, "c:6379"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSeeded(t)
				s.members(c.views)
				conn, err := s.dial("redis+cluster://a,b,c")
				require.NoError(t, err)
				assert.Equal(t, c.want, conn.Server().Addr)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSeeded(t)
		s.members(map[string]string{"a:6379": "b:6379", "b:6379": "a:6379"})
		_, err := s.dial("redis+cluster://a,b")
		require.ErrorContains(t, err, "the server b:6379: it says that the slot 0 is at a:6379")
	})
}

// Servers that name one after the other do so in vain.
func TestSearchIsBounded_R33(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeeded(t)
		views := make(map[string]string)
		for i := range 100 {
			views[fmt.Sprintf("n%d:6379", i)] = fmt.Sprintf("n%d:6379", i+1)
		}
		s.members(views)
		var dials atomic.Int32
		_, err := s.dial("redis+cluster://n0", func(cfg *Config) {
			dial := cfg.NetDial
			cfg.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials.Add(1)
				return dial(ctx, network, addr)
			}
		})
		require.Error(t, err)
		require.Less(t, dials.Load(), int32(50))
	})
}

// With real sentinels: over each kind of connection, with passwords, before and
// after a failover, and with all sentinels but one gone.
func TestRealSentinels(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]redistest.Option{"TCP": redistest.OverTCP, "TLS": redistest.OverTLS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := redistest.Sentinels(t, option, redistest.Password("hunter/2@?"))
			for _, protocol := range []string{"2", "3"} {
				c := finds(t, g.URL()+"&protocol="+protocol, 0, g.Servers[0])
				require.Equal(t, "OK", ask(t, c, "SET", "k", "v"))
			}
			now, err := g.Failover()
			require.NoError(t, err)
			again := finds(t, g.URL(), 0, now)
			require.Equal(t, "v", ask(t, again, "GET", "k"))

			finds(t, strings.Replace(g.URL(), "@", "@nowhere.invalid,", 1), 0, now)

			require.NoError(t, g.Sentinels[0].Kill())
			require.NoError(t, g.Sentinels[1].Stop())
			finds(t, g.URL(), 0, now)
			require.NoError(t, g.Sentinels[2].Kill())
			e, err := ParseURL(g.URL())
			require.NoError(t, err)
			_, err = Dial(t.Context(), Config{Endpoint: e})
			require.ErrorContains(t, err, "the sentinel "+g.Sentinels[0].TCPAddr()+": connection refused")
			require.ErrorContains(t, err, "the sentinel "+g.Sentinels[1].TCPAddr()+": not connected after")
			require.NotContains(t, err.Error(), "hunter")
			require.NotContains(t, err.Error(), "sentinels/")
		})
	}
}

// A wrong password for sentinels is their error, and a wrong one for servers
// theirs.
func TestWrongPasswordsOfSentinelsAndServers_R27(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinels(t, redistest.Password("hunter/2@?"))
	for _, c := range [][2]string{{"hunter%2F2", "the server "}, {"sentinels%2F", "the sentinel "}} {
		wrong := strings.Replace(g.URL(), c[0], "wrong%2F2", 1)
		require.NotEqual(t, g.URL(), wrong)
		e, err := ParseURL(wrong)
		require.NoError(t, err)
		_, err = Dial(t.Context(), Config{Endpoint: e})
		require.ErrorContains(t, err, c[1])
		require.Equal(t, ClassWrongPass, ErrorClass(err), err)
		require.NotContains(t, err.Error(), "wrong/")
	}
}

// With a real cluster: each slot's owner is found, before and after a failover,
// after a slot moved, and with a seed that is gone.
func TestRealCluster(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]redistest.Option{"TCP": redistest.OverTCP, "TLS": redistest.OverTLS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := redistest.Cluster(t, option, redistest.Password("hunter/2@?"))
			const slot = 0 // of {06S}
			for _, other := range []uint16{0, 6000, 16383} {
				c := finds(t, g.URL(), other, g.Owner(other))
				require.Equal(t, "cluster", c.Server().Mode)
			}
			c := finds(t, g.URL(), slot, g.Servers[0])
			c.Follow()
			require.Equal(t, "OK", ask(t, c, "SET", "{06S}:k", "v"))
			require.NoError(t, g.MoveSlot(slot, g.Servers[1], func() {
				require.Error(t, moved(t, c, "GET", "{06S}:none"))
				require.NoError(t, c.Err(), "ASK")
			}))
			require.Error(t, moved(t, c, "GET", "{06S}:k"))
			require.ErrorIs(t, c.Err(), ErrMoved)
			c = finds(t, g.URL(), slot, g.Servers[1])
			require.Equal(t, "v", ask(t, c, "GET", "{06S}:k"))

			now, err := g.Failover(slot)
			require.NoError(t, err)
			finds(t, g.URL(), slot, now)
			require.NoError(t, g.Servers[1].Kill())
			finds(t, g.URL(), slot, now)
		})
	}
}

// finds dials until it finds a server, and returns the connection. Seeds may be
// outdated for a moment after a failover.
func finds(t testing.TB, raw string, slot uint16, want *redistest.Server) (c *Conn) {
	t.Helper()
	e, err := ParseURL(raw)
	require.NoError(t, err)
	eventually(t, func() bool {
		c, err = Dial(t.Context(), Config{Endpoint: e, Slot: slot})
		if err != nil {
			return false
		}
		if c.Server().Addr != want.TCPAddr() {
			_ = c.Close()
			return false
		}
		return true
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// moved sends one command, passes an error to Doubt, and returns it.
func moved(t testing.TB, c *Conn, args ...string) (said error) {
	t.Helper()
	_ = c.Exchange(t.Context(), resp.AppendCommand(nil, args...), 1, func(_ int, v resp.Value) error {
		said = c.ServerError(v)
		c.Doubt(v)
		return nil
	})
	return said
}

// The rights that are enough for sentinels, and beside those of locks for the
// servers of a cluster.
func TestLeastRightsOfSeeds(t *testing.T) {
	t.Parallel()
	asking := []string{"on", ">w/1", "-@all", "+auth", "+hello", "+client|setname", "+client|id", "+client|info", "+info"}
	g := redistest.Sentinels(t)
	for _, s := range g.Sentinels {
		_, err := s.Do(append(append([]string{"ACL", "SETUSER", "w"}, asking...), "+sentinel|get-master-addr-by-name", "+subscribe", "+ping", "&+switch-master")...)
		require.NoError(t, err)
		_, err = s.Do("ACL", "SETUSER", "default", "-sentinel|get-master-addr-by-name")
		require.NoError(t, err)
	}
	c := finds(t, g.URL()+"?sentinel_username=w&sentinel_password=w%2F1", 0, g.Servers[0])
	c.Follow()
	eventually(t, func() bool {
		subscribed := false
		for _, s := range g.Sentinels {
			all, _ := s.Do("CLIENT", "LIST")
			for line := range strings.Lines(fmt.Sprint(all)) {
				subscribed = subscribed || strings.Contains(line, " sub=1 ") && strings.Contains(line, " user=w ")
			}
		}
		return subscribed
	})

	members := redistest.Cluster(t)
	for _, s := range members.Servers {
		_, err := s.Do(append(append([]string{"ACL", "SETUSER", "w"}, asking...), "+cluster|myid", "+cluster|slots")...)
		require.NoError(t, err)
	}
	finds(t, strings.Replace(members.URL(), "://", "://w:w%2F1@", 1), 0, members.Servers[0])
}

// The name that is verified is the one by which sentinels announce the server,
// or tls_server_name where they announce an address.
func TestCertificateIsForTheNameThatSentinelsSay_R27(t *testing.T) {
	certs := newCertificates(t, "db.test")
	for name, c := range map[string]struct {
		announced, params, fails string
	}{
		"a name":                  {"db.test:1", "", ""},
		"another name":            {"x.test:1", "", "not x.test"},
		"an address":              {"10.0.0.1:1", "", "10.0.0.1"},
		"an address, with a name": {"10.0.0.1:1", "&tls_server_name=db.test", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSeeded(t)
				s.sentinels(c.announced)
				n := redistest.NewNode(redistest.NodeConfig{})
				n.Serve(tls.NewListener(s.network.Listen(c.announced), certs.Server()))
				t.Cleanup(func() { n.Close() })
				conn, err := s.dial("rediss+sentinel://s1/m?sentinel_tls=false"+c.params, func(cfg *Config) {
					cfg.Endpoint = cfg.Endpoint.Or(Endpoint{TLS: certs.Client()})
				})
				if c.fails != "" {
					require.ErrorContains(t, err, c.fails)
					return
				}
				require.NoError(t, err)
				require.Equal(t, c.announced, conn.Server().Addr)
			})
		})
	}
}
