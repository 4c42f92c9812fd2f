package redlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// R25: each form is the command that its server knows, byte for byte, and its
// step is the trial of that command.
func TestReleaseForms_R25(t *testing.T) {
	var source wire.Tokens
	for _, prefix := range []string{"", "lock:", "p\r\n$1\r\n"} {
		c := encoding(Config{Prefix: prefix})
		for _, name := range hostileNames {
			token := wire.Veil(source.Next())
			want := map[string][]string{
				"DELEX":   {"DELEX", prefix + name, "IFEQ", secretOf(token)},
				"DELIFEQ": {"DELIFEQ", prefix + name, secretOf(token)},
			}
			script := c.kinds.Encoder.Release(nil, name, &token)
			for i := range kind.ReleaseForms {
				got := kind.ReleaseForms[i].Append(nil, script)
				require.Equal(t, resp.AppendCommand(nil, want[kind.ReleaseForms[i].Name]...), got)
			}
		}
		steps := prelude(c.config, c.kinds)
		for i, f := range kind.ReleaseForms {
			require.Equal(t, f.Name, steps[i].Name)
			require.Equal(t, f.Name, decoded(t, steps[i].Command)[0])
			require.True(t, steps[i].Optional)
		}
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

// nativeCommands returns the native commands that a server has, by its answers,
// not by its version.
func nativeCommands(t *testing.T, s *redistest.Server) []string {
	t.Helper()
	var all []string
	for _, command := range [][]string{{"DELEX", "none", "IFEQ", "a"}, {"DELIFEQ", "none", "a"}} {
		if v, err := s.Do(command...); err == nil && v == int64(0) {
			all = append(all, command[0])
		}
	}
	return all
}

// patient returns a client of real servers that waits for late votes.
func patient(t *testing.T, servers []*redistest.Server) *Client {
	t.Helper()
	c, err := New(t.Context(), Config{Nodes: Nodes(redistest.URLs(servers)...), NodeTimeout: 5 * time.Second, Forgetful: true})
	require.NoError(t, err)
	t.Cleanup(func() { closeNow(t, c) })
	require.NoError(t, c.Ready(t.Context()))
	return c
}

// R25 on real servers of any version, or of several versions if REDMUX_SERVERS
// names them: the form is what all have in common. The answers for each kind of
// key match the script's (R9).
func TestReleaseFormOnRealServers_R25(t *testing.T) {
	servers := redistest.Servers(t, 3)
	common := map[string]int{}
	for i, s := range servers {
		commands := nativeCommands(t, s)
		t.Logf("server %d has the native commands %v", i, commands)
		for _, command := range commands {
			common[command]++
		}
	}
	want := "script"
	for _, f := range kind.ReleaseForms {
		if common[f.Name] == len(servers) {
			want = f.Name
			break
		}
	}
	t.Logf("covered: release by %s", want)
	c := patient(t, servers)
	require.Eventually(t, func() bool {
		for _, n := range c.Nodes() {
			if n.State != "up" {
				return false
			}
		}
		return true
	}, 15*time.Second, ms)
	require.Equal(t, want, c.Stats().ReleaseForm)
	for _, kind := range [][]string{{"list", "RPUSH", "r", "x"}, {"hash", "HSET", "r", "f", "x"}, {"string", "SET", "r", "x"}} {
		lock, err := c.TryAcquire(t.Context(), "r", time.Minute)
		require.NoError(t, err)
		for _, s := range servers {
			_, err := s.Do("DEL", "r")
			require.NoError(t, err)
			_, err = s.Do(kind[1:]...)
			require.NoError(t, err)
		}
		require.ErrorIs(t, lock.Release(t.Context()), ErrNotHeld)
		for i, s := range servers {
			require.Eventually(t, func() bool { return c.Nodes()[i].Debts == 0 }, 15*time.Second, ms)
			found, err := s.Do("TYPE", "r")
			require.NoError(t, err)
			require.Equal(t, kind[0], found)
			_, err = s.Do("DEL", "r")
			require.NoError(t, err)
		}
		require.Equal(t, want, c.Stats().ReleaseForm, "a key is no reason to leave the form")
	}
	for i := range 50 {
		lock, err := c.TryAcquire(t.Context(), fmt.Sprint("r", i), time.Minute)
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		require.ErrorIs(t, lock.Release(t.Context()), ErrNotHeld)
	}
	for i, s := range servers {
		require.Eventually(t, func() bool { n, err := s.Do("DBSIZE"); return err == nil && n == int64(0) }, 15*time.Second, ms)
		require.Equal(t, 1, c.Nodes()[i].Connects)
	}
}

// A user who may not run the native command, or loses the right to it while
// connected, still releases everything (R22, R24).
func TestNativeReleaseIsForbiddenOnARealServer_R24(t *testing.T) {
	server := redistest.Servers(t, 1)[0]
	commands := nativeCommands(t, server)
	if len(commands) == 0 {
		t.Skip("this server has no native command of release")
	}
	form := commands[0]
	t.Logf("covered: %s", form)
	c := patient(t, []*redistest.Server{server})
	require.Equal(t, form, c.Stats().ReleaseForm)
	lock, err := c.TryAcquire(context.Background(), "r", time.Minute)
	require.NoError(t, err)
	_, err = server.Do("ACL", "SETUSER", "default", "-"+form)
	require.NoError(t, err)
	require.NoError(t, lock.Release(context.Background()), "cured by the script")
	require.Equal(t, "script", c.Stats().ReleaseForm)
	require.Zero(t, c.Nodes()[0].Debts)

	late := patient(t, []*redistest.Server{server})
	require.Equal(t, "script", late.Stats().ReleaseForm, "its handshake was told so")
	lock, err = late.TryAcquire(context.Background(), "r", time.Minute)
	require.NoError(t, err)
	require.NoError(t, lock.Release(context.Background()))
	_, err = server.Do("ACL", "SETUSER", "default", "+"+form)
	require.NoError(t, err)
	n, err := server.Do("DBSIZE")
	require.NoError(t, err)
	require.EqualValues(t, 0, n)
	require.False(t, errors.Is(lock.Release(context.Background()), ErrNoQuorum))
}
