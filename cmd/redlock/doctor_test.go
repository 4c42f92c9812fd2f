package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/redlock/internal/doctor"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// A TTL so long that a sound deployment looks sound even if the machine stalls
// for a second.
var patient = []string{"--max-ttl=2m", "--ttl=1m", "--observe=0"}

// sound starts n masters that the doctor, being patient, finds nothing wrong
// with.
func sound(t *testing.T, n int, options ...redistest.Option) (servers []*redistest.Server, nodes string) {
	t.Helper()
	return mastersWith(t, redlock.Config{MaxTTL: 2 * time.Minute}, n, options...)
}

// examine runs the doctor as a program would.
func examine(t *testing.T, code int, args ...string) doctor.Report {
	t.Helper()
	return asJSON[doctor.Report](t, code, append([]string{"doctor"}, args...)...)
}

// requireFound requires exactly these findings, as "level check".
func requireFound(t *testing.T, r doctor.Report, want ...string) {
	t.Helper()
	var got []string
	for _, f := range r.Findings {
		got = append(got, string(f.Level)+" "+f.Check)
	}
	require.Equal(t, want, got, "%+v", r)
}

// do has servers execute a command.
func do(t *testing.T, servers []*redistest.Server, args ...string) {
	t.Helper()
	for _, s := range servers {
		_, err := s.Do(args...)
		require.NoError(t, err, args[0])
	}
}

func TestDoctorIsSilentOnASoundDeployment(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := sound(t, 3)
	got := within(append([]string{"doctor", nodes, "--strict"}, patient...)...)
	assert.Equal(t, exitOK, got.code, got.stdout)
	assert.Regexp(t, `^MASTER +STARTED +DEPLOYMENT +QUARANTINE\n(unix:\S+ +\d+\S*s ago +[0-9a-f]{32} of 3 +-\n){3}\n3 nodes, \d+ checks: nothing found\n$`, got.stdout)
	assert.Empty(t, got.stderr)

	for _, s := range servers {
		keys, err := s.Do("DBSIZE")
		require.NoError(t, err)
		assert.EqualValues(t, 2, keys, "the doctor leaves nothing behind")
	}
	// And with a user who may do just what locks need: more is unknown, and
	// nothing is found.
	do(t, servers, strings.Fields("ACL SETUSER locks on >pw resetchannels ~lock:* "+pure.Rights)...)
	t.Setenv("PW", "pw")
	_, err := admin.Init(t.Context(), redlock.Config{Nodes: redlock.Nodes(redistest.URLs(servers)...), MaxTTL: 2 * time.Minute, Prefix: "lock:"})
	require.NoError(t, err)
	do(t, servers, "DEL", "redlock:seal", "redlock:fence") // which are other keys now
	args := append([]string{"doctor", nodes, "--user=locks", "--password-env=PW", "--prefix=lock:", "--strict"}, patient...)
	got = within(args...)
	assert.Equal(t, exitOK, got.code, got.stdout)
	assert.Contains(t, got.stdout, "nothing found, 2 unknown")
	assert.Contains(t, got.stdout, "unknown: CONFIG may not be asked")
	assert.Contains(t, got.stdout, "unknown: PUBSUB may not be asked")
}

// One fault after the other is planted in a deployment of real servers, found,
// and removed.
func TestDoctorFindsPlantedFaults(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := sound(t, 3, redistest.OverTCP)
	config := func(some []*redistest.Server, name, value string) func(*testing.T) {
		return func(t *testing.T) { do(t, some, "CONFIG", "SET", name, value) }
	}
	nothing := func(*testing.T) {}
	one := servers[:1]
	var side *redistest.Side
	var seals []string
	for _, s := range servers {
		seals = append(seals, seal(t, s))
	}
	opened, err := pure.ParseSeal(seals[0])
	require.NoError(t, err)
	mended := func(t *testing.T) {
		do(t, servers, "DEL", "redlock:seal")
		for i := range servers {
			do(t, servers[i:i+1], "SET", "redlock:seal", seals[i])
		}
	}
	forgetful := []string{"--max-ttl=0", "--forgetful"}
	for _, c := range []struct {
		name        string
		plant, mend func(t *testing.T)
		flags       []string // additional ones
		code        int
		want        []string
	}{
		{"forgetful", nothing, nothing, forgetful, exitUnsafe, []string{"unsafe persistence", "warning forgetful", "warning seals"}},
		{"appendfsync always, but not while it saves", func(t *testing.T) {
			config(servers, "appendonly", "yes")(t)
			config(servers, "appendfsync", "always")(t)
			config(one, "no-appendfsync-on-rewrite", "yes")(t)
		}, func(t *testing.T) {
			config(one, "no-appendfsync-on-rewrite", "no")(t)
			config(servers, "appendonly", "no")(t)
		}, forgetful, exitUnsafe, []string{"unsafe persistence", "warning forgetful", "warning seals"}},
		{"eviction", func(t *testing.T) {
			config(one, "maxmemory", "256mb")(t)
			config(one, "maxmemory-policy", "allkeys-lru")(t)
		}, func(t *testing.T) {
			config(one, "maxmemory", "0")(t)
			config(one, "maxmemory-policy", "noeviction")(t)
		}, nil, exitUnsafe, []string{"unsafe eviction"}},
		{"memory full", func(t *testing.T) {
			do(t, one, "SET", "filler", strings.Repeat("x", 1<<20), "EX", "1000")
			config(one, "maxmemory", "1mb")(t)
		}, func(t *testing.T) {
			config(one, "maxmemory", "0")(t)
			do(t, one, "DEL", "filler")
		}, nil, exitOK, []string{"warning writes", "warning memory"}},
		{"min-replicas", config(one, "min-replicas-to-write", "1"), config(one, "min-replicas-to-write", "0"), nil, exitOK,
			[]string{"warning writes", "warning min-replicas"}},
		{"idle timeout", config(one, "timeout", "5"), config(one, "timeout", "0"), nil, exitOK, []string{"warning idle-timeout"}},
		{"maxclients", func(t *testing.T) {
			// With the probe there are a hundred clients of at most 120: nearly
			// the limit, with room for the client of the doctor, even while a
			// busy server has not noticed which connections are closed.
			for range 99 {
				another := servers[0].Side()
				t.Cleanup(func() { another.Close() })
				_, err := another.Do("PING")
				require.NoError(t, err)
			}
			config(one, "maxclients", "120")(t)
		}, config(one, "maxclients", "1000"), nil, exitOK, []string{"warning clients"}},
		{"seal of another MaxTTL", func(t *testing.T) {
			do(t, one, "SET", "redlock:seal", strings.Replace(seals[0], "max_ttl_ms=120000", "max_ttl_ms=5000", 1))
		}, mended, nil, exitUnsafe, []string{"unsafe seals"}},
		{"something in the seal's place", func(t *testing.T) {
			do(t, one, "DEL", "redlock:seal")
			do(t, one, "LPUSH", "redlock:seal", "x")
		}, mended, nil, exitOK, []string{"warning seals"}},
		{"something in the place of the fencing numbers", func(t *testing.T) { do(t, one, "SET", "redlock:fence", "x") },
			func(t *testing.T) { do(t, servers, "DEL", "redlock:fence") }, nil, exitOK, []string{"warning fence"}},
		{"another database belongs to a deployment", func(t *testing.T) {
			do(t, one, "EVAL", "redis.call('SELECT', 1) return redis.call('SET', KEYS[1], ARGV[1])", "1", "redlock:seal", seals[0])
		}, func(t *testing.T) {
			do(t, one, "EVAL", "redis.call('SELECT', 1) return redis.call('DEL', KEYS[1])", "1", "redlock:seal")
		}, nil, exitOK, []string{"warning database"}},
		{"not opened", func(t *testing.T) { do(t, servers, "DEL", "redlock:seal") }, mended, nil, exitOK, []string{"warning initialised"}},
		{"an opening left over", func(t *testing.T) {
			do(t, servers, "DEL", "redlock:seal")
			do(t, one, "SET", "redlock:seal", pure.Seal{Seat: pure.Seat{Member: opened.Member, Listed: opened.Open}, Names: opened.Names}.String())
		}, mended, nil, exitOK, []string{"warning initialised"}},
		{"other keys", func(t *testing.T) { do(t, one, "SET", "x", "y") }, func(t *testing.T) { do(t, one, "DEL", "x") }, nil, exitOK, []string{"note other-keys"}},
		{"password", func(t *testing.T) {
			side = servers[0].Side()
			t.Cleanup(func() { side.Close() })
			_, err := side.Do("CONFIG", "SET", "requirepass", "pw")
			require.NoError(t, err)
		}, func(t *testing.T) {
			_, err := side.Do("CONFIG", "SET", "requirepass", "")
			require.NoError(t, err)
		}, nil, exitOK, []string{"warning reachable"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.plant(t)
			defer c.mend(t)
			r := examine(t, c.code, append(append([]string{nodes}, patient...), c.flags...)...)
			requireFound(t, r, onLoopback(c.want)...)
			strict := within(append(append([]string{"doctor", nodes, "--strict"}, patient...), c.flags...)...)
			switch {
			case c.code == exitUnsafe:
				assert.Equal(t, exitUnsafe, strict.code)
			case strings.HasPrefix(c.want[0], "warning"):
				assert.Equal(t, exitWarned, strict.code)
			default:
				assert.Equal(t, exitOK, strict.code)
			}
			assert.Contains(t, strict.stdout, "Change: ")
		})
	}
	requireFound(t, examine(t, exitOK, append([]string{nodes}, patient...)...), onLoopback(nil)...)
}

// onLoopback adds the findings for servers that are reached over TCP on this
// machine, as the first of the notes.
func onLoopback(want []string) []string {
	i := slices.IndexFunc(want, func(f string) bool { return strings.HasPrefix(f, "note") })
	if i < 0 {
		i = len(want)
	}
	return slices.Insert(slices.Clone(want), i, "note placement")
}

// TLS to a port that expects plaintext never finishes its handshake. The doctor
// says so long before the timeout.
func TestDoctorFindsTLSToAPlainPort_R31(t *testing.T) {
	t.Parallel()
	servers, _ := sound(t, 3, redistest.OverTCP)
	do(t, servers[:1], "CONFIG", "SET", "protected-mode", "no")
	var urls []string
	for _, s := range servers {
		urls = append(urls, "rediss://"+s.TCPAddr())
	}
	got := soon(t, "doctor", "--json", "--nodes="+strings.Join(urls, ","), "--observe=0", "--max-ttl=1m", "--timeout=1h")
	require.Equal(t, exitUnsafe, got.code, got)
	var r doctor.Report
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &r))
	requireFound(t, r, "unsafe reachable", "note placement")
	for _, seen := range r.Findings[0].Seen {
		assert.Contains(t, seen.What, "RESP without TLS")
		assert.Contains(t, seen.What, "use redis://")
	}
}

// The list of checks needs no masters.
func TestDoctorListsItsChecks(t *testing.T) {
	r := within("doctor", "--list")
	require.Equal(t, result{code: exitOK, stdout: r.stdout}, r)
	for _, c := range doctor.Checks() {
		assert.Contains(t, r.stdout, "\n"+c.Name+" ")
	}
	var all []doctor.Check
	require.NoError(t, json.Unmarshal([]byte(within("doctor", "--list", "--json").stdout), &all))
	assert.Equal(t, doctor.Checks(), all)
}

func TestDoctorFindsMissingRights(t *testing.T) {
	servers, nodes := sound(t, 3)
	do(t, servers, "ACL", "SETUSER", "locks", "on", ">pw", "~*", "+@all", "-config")
	do(t, servers[:1], "ACL", "SETUSER", "locks", "-evalsha")
	do(t, servers[1:2], "ACL", "SETUSER", "locks", "-client|kill")
	t.Setenv("PW", "pw")
	flags := append([]string{nodes, "--user=locks", "--password-env=PW"}, patient...)
	r := examine(t, exitOK, flags...)
	requireFound(t, r, "warning rights", "warning rights")
	assert.Contains(t, r.Findings[0].Seen[0].What, "EVALSHA is forbidden")
	assert.Contains(t, r.Findings[1].Seen[0].What, "CLIENT KILL is forbidden")
	do(t, servers[:2], "ACL", "SETUSER", "locks", "-script|load")
	requireFound(t, examine(t, exitUnsafe, flags...), "unsafe rights", "warning rights")
	do(t, servers, "ACL", "SETUSER", "locks", "on", "+@all")
	requireFound(t, examine(t, exitOK, flags...), "note broad-rights")
	// The scripts do not need MGET, and the library counts such nodes.
	do(t, servers, "ACL", "SETUSER", "locks", "-mget", "-config")
	r = examine(t, exitOK, flags...)
	requireFound(t, r, "warning rights")
	assert.Contains(t, r.Findings[0].Seen[0].What, "MGET is forbidden")
}

// What the masters were before the doctor came.
func TestDoctorOfOtherMasters(t *testing.T) {
	t.Parallel()
	renamed, clustered := []string{"--rename-command", "EVALSHA", ""}, []string{"--cluster-enabled", "yes", "--port", "0"}
	for name, c := range map[string]struct {
		masters int
		restart []string // the first, with other settings
		code    int
		want    []string
	}{
		"two masters":       {2, nil, exitOK, []string{"warning size"}},
		"a renamed command": {3, renamed, exitOK, []string{"warning initialised", "warning rights", "note restarts"}}, // it lost its seal
		"a cluster node":    {3, clustered, exitUnsafe, []string{"unsafe cluster"}},
	} {
		servers, nodes := sound(t, c.masters)
		if c.restart != nil {
			require.NoError(t, servers[0].RestartWith(c.restart...))
		}
		r := examine(t, c.code, append([]string{nodes}, patient...)...)
		requireFound(t, r, c.want...)
		if name == "a renamed command" {
			assert.Contains(t, r.Findings[1].Seen[0].What, "EVALSHA is unknown")
		}
	}
	servers := redistest.Servers(t, 2, func(o *redistest.Options) { o.TCP, o.Unix = true, true })
	nodes := fmt.Sprintf("--nodes=%s,%s,%s", servers[0].URL(), servers[0].UnixURL(), servers[1].URL())
	requireFound(t, examine(t, exitUnsafe, append([]string{nodes}, patient...)...), "unsafe same-server", "warning initialised", "note placement")

	// Without flags the doctor examines what redlock init without flags has
	// opened.
	_, nodes = unopened(t, 3)
	initAs(t, exitOK, "opened", nodes, "--max-ttl=0")
	assert.Empty(t, examine(t, exitOK, nodes, "--max-ttl=0", "--observe=0", "--ttl=30s").Findings)
	// A MaxTTL below the usual TTL is no fault: no client uses the usual TTL then.
	_, nodes = mastersWith(t, redlock.Config{MaxTTL: 9 * time.Second}, 3)
	for _, f := range examine(t, exitOK, nodes, "--max-ttl=9s", "--observe=0").Findings {
		assert.Equal(t, doctor.Warning, f.Level, "%+v", f) // on a busy machine a round trip may be long
	}
}

func TestDoctorFindsReplicas(t *testing.T) {
	t.Parallel()
	servers, nodes := unopened(t, 4, redistest.OfOneKind, redistest.OverTCP, redistest.Args("--repl-diskless-sync-delay", "0"))
	initAs(t, exitOK, "opened", "--nodes="+strings.Join(redistest.URLs(servers[:3]), ","), "--max-ttl=2m")
	host, port, _ := strings.Cut(servers[0].TCPAddr(), ":")
	do(t, servers[3:], "REPLICAOF", host, port)
	others := "--nodes=" + strings.Join(redistest.URLs(servers[:3]), ",")
	// While it loads its master's keys, it answers nothing else.
	eventually(t, "the replica attaches", func() bool {
		reply, err := servers[3].Do("INFO", "replication")
		return err == nil && strings.Contains(reply.(string), "master_link_status:up")
	})
	requireFound(t, examine(t, exitOK, append([]string{others}, patient...)...), "warning replicas", "note placement", "note restarts")
	r := examine(t, exitUnsafe, append([]string{nodes}, patient...)...)
	requireFound(t, r, "unsafe role", "unsafe deployment", "unsafe restarts", "warning size", "warning replicas", "note placement")

	// A sentinel of another program listens where all sentinels do.
	side := servers[1].Side()
	defer side.Close()
	_, err := side.Do("SUBSCRIBE", "__sentinel__:hello")
	require.NoError(t, err)
	requireFound(t, examine(t, exitUnsafe, append([]string{others}, patient...)...), "unsafe sentinels", "warning replicas", "note placement", "note restarts")
}

func TestDoctorOfNodesThatAreDown(t *testing.T) {
	t.Parallel()
	servers, nodes := sound(t, 3)
	flags := append([]string{nodes, "--timeout=4s"}, patient...)
	require.NoError(t, servers[0].Kill())
	r := examine(t, exitOK, flags...)
	requireFound(t, r, "warning reachable")
	require.Len(t, r.Findings[0].Seen, 1)
	require.NoError(t, servers[1].Stop())
	requireFound(t, examine(t, exitUnsafe, flags...), "unsafe reachable")
}

func TestDoctorFindsLongRoundTrips(t *testing.T) {
	t.Parallel()
	servers, _ := unopened(t, 3)
	proxies := redistest.Proxies(t, servers)
	nodes := "--nodes=" + strings.Join(redistest.URLs(proxies), ",")
	initAs(t, exitOK, "opened", nodes, "--max-ttl=2m")
	proxies[0].Latency(100*time.Millisecond, 100*time.Millisecond)
	// A tenth of the TTL is 150 ms: less than the round trip of the slow
	// master, and far more than those of the others.
	r := examine(t, exitOK, nodes, "--max-ttl=2m", "--ttl=1500ms", "--observe=0")
	require.NotEmpty(t, r.Findings)
	assert.Equal(t, "round-trip", r.Findings[0].Check)
	assert.Contains(t, r.Findings[0].Seen[0].Addr, proxies[0].Addr())
	proxies[1].Latency(100*time.Millisecond, 100*time.Millisecond)
	r = examine(t, exitUnsafe, nodes, "--max-ttl=2m", "--ttl=1500ms", "--observe=0")
	assert.Equal(t, doctor.Unsafe, r.Findings[0].Level)
}

// The doctor waits for a client that is still connecting: that is no refusal.
func TestSettled(t *testing.T) {
	up, connecting, down := redlock.NodeStatus{State: "up"}, redlock.NodeStatus{State: "dialing", Err: multiplex.ErrConnecting},
		redlock.NodeStatus{State: "down", Err: multiplex.ErrDown}
	for _, c := range []struct {
		nodes        []redlock.NodeStatus
		done, quorum bool
	}{
		{[]redlock.NodeStatus{up, up, down}, true, true},
		{[]redlock.NodeStatus{up, down, down}, true, false},
		{[]redlock.NodeStatus{up, up, connecting}, false, true},
		{[]redlock.NodeStatus{up, connecting}, false, false},
		{[]redlock.NodeStatus{{State: "dialing"}}, false, false},
	} {
		done, quorum := settled(c.nodes)
		assert.Equal(t, c.done, done, c.nodes)
		assert.Equal(t, c.quorum, quorum, c.nodes)
	}
}

func TestDoctorFindsClocks(t *testing.T) {
	t.Parallel()
	servers, nodes := sound(t, 3, redistest.OwnClock)
	servers[0].Clock().Jump(time.Hour) // far enough for a finding on any machine
	servers[0].Clock().SetRate(1.5)
	servers[1].Clock().Jump(-time.Hour)
	r := examine(t, exitUnsafe, nodes, "--max-ttl=2m", "--ttl=1m", "--observe=1s")
	requireFound(t, r, "unsafe clock-rate", "note clock-offset")
	require.Len(t, r.Findings[0].Seen, 1)
	assert.Contains(t, r.Findings[0].Seen[0].What, "%")
	require.Len(t, r.Findings[1].Seen, 2)
	assert.Regexp(t, `^\+36\d\d\.\d s$`, r.Findings[1].Seen[0].What)
	assert.Regexp(t, `^-(3600\.\d|3599\.[5-9]) s$`, r.Findings[1].Seen[1].What, "half of a round trip may be missing, or too much")
}

// Other products and versions answer differently, and are as sound.
func TestDoctorOfOtherProducts(t *testing.T) {
	t.Parallel()
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	found, err := filepath.Glob(filepath.Join(home, ".cache/redmux/servers/*/*-server"))
	require.NoError(t, err)
	if len(found) == 0 {
		t.Skip("no servers were fetched (make servers)")
	}
	for _, path := range found {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			t.Parallel()
			_, nodes := sound(t, 3, func(o *redistest.Options) { o.Path = path })
			got := within(append([]string{"doctor", nodes, "--strict"}, patient...)...)
			assert.Equal(t, exitOK, got.code, got.stdout)
			assert.Regexp(t, `: nothing found\n$`, got.stdout)
			assert.Equal(t, 3, nodesOf(t, exitOK, nodes, "--observe=0").Up)
		})
	}
}
