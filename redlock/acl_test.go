package redlock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A user with the documented rights is denied nothing that a client does with
// plain locks, Inspect among it, so that ACL LOG shows what matters (R22).
func TestTheDocumentedRightsLeaveNoDenial_R22(t *testing.T) {
	server := redistest.Servers(t, 1, redistest.OverTCP)[0]
	user := append([]string{"ACL", "SETUSER", "locker", "on", ">hunter2", "~lock:*"}, strings.Fields(aclRights)...)
	_, err := server.Do(user...)
	require.NoError(t, err)
	for _, newer := range []string{"+client|setinfo", "+delex", "+delifeq"} {
		_, _ = server.Do("ACL", "SETUSER", "locker", newer) // an error where it is unknown
	}
	config := Config{Nodes: Nodes("redis://" + server.TCPAddr()), Username: "locker", Password: "hunter2", Prefix: "lock:", Connect: Connect{ClientName: "me"}}
	_, err = Init(t.Context(), config)
	require.NoError(t, err)
	for name, change := range map[string]func(*Config){
		"plain": func(*Config) {}, "Owner": func(c *Config) { c.Owner = "host-1" }, "Fenced": func(c *Config) { c.Fenced = true },
		"RESP2": func(c *Config) { c.Nodes = Nodes(c.Nodes[0].URL + "?protocol=2") }, "Forgetful": func(c *Config) { c.Forgetful = true },
	} {
		t.Run(name, func(t *testing.T) {
			config := config
			change(&config)
			c, err := New(t.Context(), config)
			require.NoError(t, err)
			defer closeNow(t, c)
			require.NoError(t, c.Ready(t.Context()))
			lock, err := c.Acquire(t.Context(), name, 10*time.Second)
			require.NoError(t, err)
			seen, err := Inspect(t.Context(), c, name)
			require.NoError(t, err)
			require.NoError(t, seen.Nodes[0].Err)
			lock, err = lock.Extend(t.Context(), 20*time.Second)
			require.NoError(t, err)
			other, err := New(t.Context(), config)
			require.NoError(t, err)
			defer closeNow(t, other)
			w := waits(t.Context(), other, name)
			time.Sleep(50 * ms)
			require.NoError(t, lock.Release(context.Background()))
			<-w.done
			require.NoError(t, w.err)
			require.NoError(t, w.lock.Release(context.Background()))
		})
	}
	log, err := server.Do("ACL", "LOG")
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(log), "reason", "%v", log)
}

// A user of an older rule, without client|info: a client tries that once, and
// not again when it reconnects (R22).
func TestWhatTheUserMayNotDoIsTriedOnce_R22(t *testing.T) {
	server := redistest.Servers(t, 1, redistest.OverTCP)[0]
	user := append([]string{"ACL", "SETUSER", "locker", "on", ">hunter2", "~lock:*"}, strings.Fields(aclRights)...)
	_, err := server.Do(append(user, "-client|info")...)
	require.NoError(t, err)
	c, err := New(t.Context(), Config{
		Nodes: Nodes("redis://" + server.TCPAddr()), Username: "locker", Password: "hunter2", Prefix: "lock:", Forgetful: true,
	})
	require.NoError(t, err)
	defer closeNow(t, c)
	for range 3 {
		require.NoError(t, c.Ready(t.Context()))
		before := c.Nodes()[0].Connects
		_, err = server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return c.Nodes()[0].Connects > before && c.Nodes()[0].State == NodeUp }, 10*time.Second, ms)
	}
	log, err := server.Do("ACL", "LOG")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(fmt.Sprint(log), "object client|info"), "%v", log)
	require.Contains(t, fmt.Sprint(log), "[count 1 reason command context toplevel object client|info", "%v", log)
}
