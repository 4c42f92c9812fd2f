package main

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/redlock/internal/doctor"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// openedAt opens the deployment of one URL.
func openedAt(t *testing.T, node, prefix string) (flags []string) {
	t.Helper()
	_, err := admin.Init(t.Context(), redlock.Config{Nodes: redlock.Nodes(node), MaxTTL: 2 * time.Minute, Prefix: prefix})
	require.NoError(t, err)
	return append([]string{"--nodes=" + node, "--prefix=" + prefix}, patient...)
}

// findsSoon waits until the doctor finds just this besides that there is one
// master. It returns what was seen.
func findsSoon(t *testing.T, flags []string, want ...string) (r doctor.Report) {
	t.Helper()
	want = append([]string{"warning size"}, want...)
	var got []string
	for range 60 {
		// While replicas reconnect, no lock is granted.
		out := within(append([]string{"doctor", "--json"}, flags...)...).stdout
		r, got = doctor.Report{}, nil
		require.NoError(t, json.Unmarshal([]byte(out), &r), out)
		for _, f := range r.Findings {
			if found := string(f.Level) + " " + f.Check; found != "note restarts" { // it was opened a moment ago
				got = append(got, found)
			}
		}
		if assert.ObjectsAreEqual(want, got) {
			return r
		}
		time.Sleep(500 * time.Millisecond)
	}
	require.Equal(t, want, got, "%+v", r)
	return r
}

func sawAll(r doctor.Report) string {
	var all strings.Builder
	for _, f := range r.Findings {
		for _, s := range f.Seen {
			all.WriteString(s.What + "\n")
		}
	}
	for _, u := range r.Unknown {
		all.WriteString("unknown: " + u.Check + "\n")
	}
	return all.String()
}

// freePort returns a port at which nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	port, err := redistest.FreePort()
	require.NoError(t, err)
	return strconv.Itoa(port)
}

// One fault after the other is planted among real sentinels, found, and
// removed.
func TestDoctorAsksSentinels(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinels(t, redistest.Args("--min-replicas-to-write", "2", "--min-replicas-max-lag", "2"))
	flags := openedAt(t, g.URL(), "lock:")
	r := findsSoon(t, flags)
	assert.Empty(t, r.Unknown)

	// A user with the rights of docs/failover.md may ask all of it, and one with
	// those of the locks alone may not: that is unknown.
	few := []string{"ACL", "SETUSER", "locks", "on", ">pw", "resetchannels", "&+switch-master", "-@all", "+auth", "+hello", "+client|setname", "+client|id",
		"+client|info", "+info", "+ping", "+subscribe", "+sentinel|get-master-addr-by-name"}
	do(t, g.Sentinels, few...)
	as := g.URL() + "?" + url.Values{"sentinel_username": {"locks"}, "sentinel_password": {"pw"}}.Encode()
	asUser := append([]string{"--nodes=" + as}, flags[1:]...)
	assert.Contains(t, sawAll(findsSoon(t, asUser)), "unknown: sentinel-quorum")
	do(t, g.Sentinels, "ACL", "SETUSER", "locks", "+sentinel|master", "+sentinel|replicas", "+sentinel|ckquorum")
	assert.Empty(t, findsSoon(t, asUser).Unknown)

	// What authenticates to servers goes to no sentinel (R27).
	do(t, g.Servers, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("secret"), 0o600))
	assert.Empty(t, findsSoon(t, append(flags, "--user=app", "--password-file="+file), "note broad-rights").Unknown)

	do(t, g.Sentinels[:1], "SENTINEL", "SET", redistest.MasterName, "quorum", "9")
	assert.Contains(t, sawAll(findsSoon(t, flags, "warning sentinel-quorum")), "NOQUORUM 3 usable Sentinels")
	do(t, g.Sentinels[:1], "ACL", "SETUSER", "locks", "-sentinel|ckquorum")
	assert.Contains(t, sawAll(findsSoon(t, asUser, "warning sentinel-quorum")), "quorum 9, and it knows 3 sentinels")
	do(t, g.Sentinels[:1], "SENTINEL", "SET", redistest.MasterName, "quorum", "2")
	do(t, g.Sentinels, "SENTINEL", "SET", redistest.MasterName, "down-after-milliseconds", "80000")
	assert.Contains(t, sawAll(findsSoon(t, flags, "warning failover")), "a loss is noticed after 1m20s")
	do(t, g.Sentinels, "SENTINEL", "SET", redistest.MasterName, "down-after-milliseconds", "20000")

	// A replica that announces an address by which it has two, and then a port
	// at which nothing listens.
	replica, free := g.Servers[1:2], freePort(t)
	announce := func(what, value string) {
		do(t, replica, "CONFIG", "SET", "replica-announce-"+what, value)
		do(t, g.Servers[:1], "CLIENT", "KILL", "TYPE", "replica")
	}
	announce("ip", "localhost")
	assert.Contains(t, sawAll(findsSoon(t, flags, "warning announced")), " is the same server as 127.0.0.1:")
	announce("ip", "")
	findsSoon(t, flags)
	announce("port", free)
	assert.Contains(t, sawAll(findsSoon(t, flags, "warning announced")), "127.0.0.1:"+free+", named by")
	announce("port", "0")
	do(t, g.Sentinels, "SENTINEL", "RESET", redistest.MasterName)
	findsSoon(t, flags)

	require.NoError(t, g.Sentinels[2].Kill())
	assert.Contains(t, sawAll(findsSoon(t, flags, "warning seeds")), g.Sentinels[2].TCPAddr()+": ")
}

// The same in a cluster. A bound that the URL declares is compared with
// cluster-node-timeout.
func TestDoctorAsksServersOfACluster(t *testing.T) {
	t.Parallel()
	g := redistest.Cluster(t)
	flags := openedAt(t, g.URL()+"?failover=3s", "{x}:")
	assert.Empty(t, findsSoon(t, flags).Unknown)

	do(t, g.Servers, "CONFIG", "SET", "cluster-node-timeout", "1400")
	assert.Contains(t, sawAll(findsSoon(t, flags, "warning failover")), "cluster-node-timeout 1400 allows 3.1s, and its URL says 3s")
	do(t, g.Servers, "CONFIG", "SET", "cluster-node-timeout", "1000")

	do(t, g.Servers[:5], strings.Fields("ACL SETUSER locks on >pw resetchannels ~{x}:* +cluster|myid +cluster|slots "+pure.Rights)...)
	as := append([]string{"--nodes=" + strings.Replace(flags[0][len("--nodes="):], "//", "//locks:pw@", 1)}, flags[1:]...)
	r := findsSoon(t, as, "warning announced")
	assert.Contains(t, sawAll(r), g.Servers[5].TCPAddr()+", named by ")
	assert.Contains(t, sawAll(r), "WRONGPASS")
	assert.Contains(t, sawAll(r), "unknown: failover", "CONFIG may not be asked")

	free := freePort(t)
	do(t, g.Servers[5:], "CONFIG", "SET", "cluster-announce-port", free)
	assert.Contains(t, sawAll(findsSoon(t, flags, "warning announced")), "127.0.0.1:"+free+", named by ")
}
