//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// What may run beside a command, by the flags of both. Locks of different kinds
// on one name do not see each other in the masters, so the commands look. A
// lock without a flag is the writer's where there are readers, as users of
// flock expect.
func TestRunSeesLocksOfOtherKinds(t *testing.T) {
	redistest.NoLeaks(t)
	_, nodes := masters(t, 3)
	for _, test := range []struct {
		first  string
		second string
		code   int
		says   string
	}{
		{"run --shared", "run -n", exitHeld, "read by 1"},
		{"run --shared", "run -n --shared", 0, ""},
		{"run --shared", "run -n --exclusive", exitHeld, "read by 1"},
		{"run --exclusive", "run -n --shared", exitHeld, ""},
		{"run --permits=2", "run -n --permits=2", 0, ""},
		{"run --permits=2", "run -n --permits=1", exitHeld, ""},
		{"run --fair", "run -n --fair", exitHeld, ""},
		{"run", "run -n --shared", exitHeld, "is held by"},
		{"run", "run -n --exclusive", exitHeld, "is held by"},
		{"run --exclusive", "run -n", exitHeld, "is held by"},
		{"run", "run -n --fair", exitHeld, "is held by"},
		{"run --shared", "run -n --fair", exitUsage, "use --exclusive, or another name"},
		{"run --shared", "run -n --permits=2", exitUsage, "use --exclusive, or another name"},
		{"run --shared", "run -n --fenced", exitUsage, "use --exclusive, or another name"},
		{"run --shared", "run -n --min-hold=1s", exitUsage, "use --exclusive, or another name"},
		{"run --shared", "run -n --also=s", exitUsage, "use --exclusive, or another name"},
		{"run --shared", "acquire -n", exitUsage, "use --exclusive, or another name"},
		{"run --shared", "elect", exitUsage, "use --exclusive, or another name"},
		{"run --permits=2", "run -n", exitUsage, "use --permits, or another name"},
		{"run --permits=2", "run -n --shared", exitUsage, "use --permits, or another name"},
		{"run --permits=2", "run -n --exclusive", exitUsage, "use --permits, or another name"},
		{"run --permits=2", "run -n --fair", exitUsage, "use --permits, or another name"},
		{"run --permits=2", "acquire -n", exitUsage, "use --permits, or another name"},
		{"run", "run -n --permits=2", exitUsage, "use no --permits, or another name"},
		{"run --exclusive", "run -n --permits=2", exitUsage, "use no --permits, or another name"},
		{"elect", "run -n --permits=2", exitUsage, "use no --permits, or another name"},
	} {
		t.Run(test.first+", "+test.second, func(t *testing.T) {
			resource := "r of " + t.Name()
			dir := t.TempDir()
			begun, end := filepath.Join(dir, "begun"), filepath.Join(dir, "end")
			words := strings.Fields(test.first)
			args := append(append([]string{words[0], nodes}, words[1:]...), resource, "--")
			holder := spawned(t, program(t, append(args, shell(`: >"$1"; while test ! -e "$2"; do sleep 0.01; done`, begun, end)...)...))
			appears(t, begun)
			words = strings.Fields(test.second)
			args = append(append([]string{words[0], nodes}, words[1:]...), resource)
			ran := filepath.Join(dir, "ran")
			if words[0] != "acquire" {
				args = append(args, "--", "touch", ran)
			}
			r := finish(t, program(t, args...))
			require.Equal(t, test.code, r.code, r.stderr)
			require.Contains(t, r.stderr, test.says)
			require.Equal(t, test.code == 0, exists(ran))
			require.NoError(t, os.WriteFile(end, nil, 0o600))
			require.Zero(t, await(t, holder))
			if test.code == exitHeld {
				r = finish(t, program(t, args...))
				require.Zero(t, r.code, r.stderr)
			}
		})
	}
}

// A lock without a flag waits for readers, and keeps them out while it is held.
func TestRunWithoutAFlagExcludesReaders(t *testing.T) {
	redistest.NoLeaks(t)
	_, nodes := masters(t, 3)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	alone := shell(`test ! -e "$1" && : >"$1" && sleep 0.05 && rm "$1"`, in)
	beside := shell(`test ! -e "$1" && sleep 0.02 && test ! -e "$1" && : >"$2"`, in, out)
	var all []*exec.Cmd
	for range 4 {
		all = append(all, spawned(t, runs(t, nodes, nil, alone...)), spawned(t, runs(t, nodes, []string{"--shared"}, beside...)))
	}
	for _, cmd := range all {
		require.Zero(t, await(t, cmd))
	}
	require.True(t, exists(out))
}

// A wait that is shorter than --timeout ends with what it waited for.
func TestABoundedWaitForReaders(t *testing.T) {
	servers, nodes := masters(t, 3)
	_, err := client(t, servers).RW("r").Read().Acquire(t.Context(), time.Hour)
	require.NoError(t, err)
	r := growing(time.Second, saying("read by 1"), func(wait string) result {
		return within("run", nodes, "--timeout=1h", "-w", wait, "r", "--", "true")
	})
	require.Equal(t, exitHeld, r.code, r.stderr)
	require.Contains(t, r.stderr, "read by 1")
}

// What the answers of the nodes say of locks of another kind.
func TestStrangers(t *testing.T) {
	on := func(nodes ...int) []admin.Participant { return []admin.Participant{{Nodes: nodes}} }
	nodes := func(holders ...string) (all []admin.InspectedNode) {
		for _, h := range holders {
			n := admin.InspectedNode{Holder: h}
			if h == "?" {
				n = admin.InspectedNode{Err: multiplex.ErrTimeout}
			}
			all = append(all, n)
		}
		return all
	}
	five := 5
	for _, test := range []struct {
		name  string
		own   form
		found admin.Inspection
		use   string
	}{
		{"ourselves", form{}, admin.Inspection{Nodes: nodes("a", "a", "a")}, ""},
		{"a reader on one node", form{}, admin.Inspection{Nodes: nodes("a", "a", "a"), Readers: on(0)}, ""},
		{"a reader", form{}, admin.Inspection{Nodes: nodes("a", "a", "a"), Readers: on(0, 2)}, "--exclusive"},
		{"a reader that a quorum may have", form{}, admin.Inspection{Nodes: nodes("a", "a", "?"), Readers: on(0)}, "--exclusive"},
		{"readers beside readers", form{Shared: true}, admin.Inspection{Nodes: nodes("", "", ""), Readers: on(0, 1, 2)}, ""},
		{"permits beside readers", form{Shared: true}, admin.Inspection{Nodes: nodes("", "", ""), PermitsHeld: on(0, 1)}, "--permits"},
		{"a reader on two of four nodes", form{}, admin.Inspection{Nodes: nodes("a", "a", "a", "a"), Readers: on(0, 2)}, ""},
		{"a queue", form{}, admin.Inspection{Nodes: nodes("a", "a", "a"), Queue: on(1, 2)}, "--fair"},
		{"a queue beside its own", form{Fair: true}, admin.Inspection{Nodes: nodes("a", "a", "a"), Queue: on(1, 2)}, ""},
		{"a holder beside permits", form{Permits: &five}, admin.Inspection{Nodes: nodes("a", "b", "a")}, "no --permits"},
		{"remains beside permits", form{Permits: &five}, admin.Inspection{Nodes: nodes("a", "b", "")}, ""},
		{"what may be a holder beside permits", form{Permits: &five}, admin.Inspection{Nodes: nodes("a", "?", "")}, "no --permits"},
	} {
		err := test.own.strangersIn(test.found)
		if test.use == "" {
			require.NoError(t, err, test.name)
			continue
		}
		stranger := (*strangerError)(nil)
		require.ErrorAs(t, err, &stranger, test.name)
		require.Equal(t, test.use, stranger.ours, test.name)
		require.Equal(t, exitUsage, exitCode(err))
	}
}

// A look for locks of other kinds that no quorum answers ends with the causes,
// and the lock is given back. It goes on when masters do (R33).
func TestALockIsNotUsedUnlessAQuorumSaysWhatIsBesideIt_R33(t *testing.T) {
	redistest.NoLeaks(t)
	servers, nodes := masters(t, 3)
	c := client(t, servers)
	ctx := t.Context()
	look := func(most time.Duration) (time.Duration, error) {
		begun := time.Now()
		err := new(form).strangers(ctx, c, 30*time.Second, most, "r")
		return time.Since(begun), err
	}
	_, err := look(10 * time.Second)
	require.NoError(t, err)
	reader, err := c.RW("r").Read().TryHold(ctx, redlock.HoldOptions{TTL: 30 * time.Second})
	require.NoError(t, err)
	stop := func(n int) {
		for i, s := range servers {
			require.NoError(t, s.Continue())
			if i < n {
				require.NoError(t, s.Stop())
			}
		}
	}
	defer stop(0)
	stranger, unseen := (*strangerError)(nil), (*unseenError)(nil)
	stop(1)
	_, err = look(10 * time.Second)
	require.ErrorAs(t, err, &stranger)
	stop(2)
	took, err := look(1200 * time.Millisecond)
	t.Log(took, err)
	require.ErrorAs(t, err, &unseen)
	require.Equal(t, exitNoQuorum, exitCode(err))
	require.Less(t, took, 5*time.Second)
	require.Contains(t, err.Error(), "whether there are locks of another kind")
	timer := time.AfterFunc(700*time.Millisecond, func() { stop(1) })
	defer timer.Stop()
	_, err = look(20 * time.Second)
	require.ErrorAs(t, err, &stranger)
	stop(0)

	// Masters that grant locks, but may not say who reads: the command does not
	// run.
	allow := func(rule string) { do(t, servers[:2], "ACL", "SETUSER", "default", rule) }
	allow("-zrange")
	ran := filepath.Join(t.TempDir(), "ran")
	for _, args := range []string{
		"run -wTIME --timeout=1h r -- touch " + ran, "run -n --timeout=1h r -- touch " + ran, "run --timeout=TIME r -- touch " + ran,
		"acquire --timeout=TIME r", "acquire -wTIME --timeout=1h r", "run -wTIME --timeout=1h r -- touch " + ran,
	} {
		r := growing(time.Second, saying("NOPERM"), func(wait string) result {
			words := strings.Fields(strings.ReplaceAll(args, "TIME", wait))
			begun := time.Now()
			r := finish(t, program(t, append([]string{words[0], nodes}, words[1:]...)...)) // which bounds it
			t.Log(wait, args, time.Since(begun), r.stderr)
			return r
		})
		require.Equal(t, exitNoQuorum, r.code, "%q: %s", args, r.stderr)
		require.Contains(t, r.stderr, "whether there are locks of another kind", args)
		require.Contains(t, r.stderr, "NOPERM", args)
		require.False(t, exists(ran))
	}
	allow("+zrange")
	require.NoError(t, reader.Release(ctx))
	r := finish(t, program(t, "run", "-n", nodes, "r", "--", "touch", ran))
	require.Zero(t, r.code, r.stderr)
	require.True(t, exists(ran))
}
