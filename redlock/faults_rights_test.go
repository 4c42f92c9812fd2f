package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/stretchr/testify/require"
)

// nativeCommands returns the native release commands of a server, by its
// answers (R25).
func nativeCommands(s *redistest.Server) (all []string) {
	for _, command := range [][]string{{"DELEX", "none", "IFEQ", "a"}, {"DELIFEQ", "none", "a"}} {
		if v, err := s.Do(command...); err == nil && v == int64(0) {
			all = append(all, command[0])
		}
	}
	return all
}

// leastPrivilege gives the user redlock exactly the necessary rights, except
// without.
func leastPrivilege(f *fleet, without string) {
	f.Helper()
	rules := strings.Fields("reset on resetchannels ~lock:* " + pure.Rights)
	rules = slices.DeleteFunc(rules, func(r string) bool { return r == without })
	rules = append(rules, ">secret of the test")
	for i := range f.servers {
		own := rules
		for _, native := range nativeCommands(f.servers[i]) { // R25
			own = append(own[:len(own):len(own)], "+"+native)
		}
		f.must(i, append([]string{"ACL", "SETUSER", "redlock"}, own...)...)
	}
}

// The least privileges suffice for everything, including the fence (R8, R22).
// If CLIENT KILL is forbidden, the release is repeated until a late SET can do
// no harm. Without MGET, merged releases look at their keys one by one.
func TestFaultLeastPrivilege_R8_R22(t *testing.T) {
	for name, without := range map[string]string{"all of them": "", "without CLIENT KILL": "+client|kill", "without MGET": "+mget"} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 5)
			leastPrivilege(f, without)
			config := redlock.Config{
				Username: "redlock", Password: "secret of the test", Prefix: "lock:", NodeTimeout: unhurried,
			}
			c := f.client(config)
			f.allUp(c, inTheEnd)
			lock := acquired(t, c, "x", 10*time.Second)
			longer, err := lock.Extend(context.Background(), 20*time.Second)
			if err != nil || longer.Validity() < 12*time.Second {
				t.Fatalf("Extend: %v, %v", longer.Validity(), err)
			}
			if _, err := c.TryAcquire(context.Background(), "x", time.Second); !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("a held lock: %v", err)
			}
			if err := longer.Release(context.Background()); err != nil {
				t.Errorf("Release: %v", err)
			}
			config.NodeTimeout = 0 // otherwise the silence would be noticed late
			c = f.client(config)
			f.allUp(c, inTheEnd)
			bestOf(t, func() error {
				l := f.load(c, workload{callers: 64, fresh: true})
				time.Sleep(50 * time.Millisecond)
				f.stop(0)
				f.state(c, 0, inTheEnd, "down", "dialing")
				l.end()
				f.continues(0)
				f.state(c, 0, inTheEnd, "up")
				if took := f.noOrphans(inTheEnd); took > repeatedWithin {
					return fmt.Errorf("no orphan only after %v", took)
				}
				return nil
			})
			for i := range f.servers {
				log := fmt.Sprint(f.must(i, "ACL", "LOG"))
				if without == "" && strings.Contains(log, "reason") && !harmless(log) {
					t.Errorf("server %d refused something: %s", i, log)
				}
			}
		})
	}
}

// harmless refusals are of CLIENT SETINFO, which is newer than 7.0.
func harmless(log string) bool {
	for _, object := range regexp.MustCompile(`object (\S+)`).FindAllStringSubmatch(log, -1) {
		if object[1] != "client|setinfo" {
			return false
		}
	}
	return true
}

// With the advised rights everything works, including the seal. Without one of
// them the error names the command, and what to grant: that rule is valid for
// the server, and mends it (R22).
func TestFaultPermissions_R22(t *testing.T) {
	config := redlock.Config{Username: "redlock", Password: "secret of the test", Prefix: "lock:", NodeTimeout: patience}
	for _, without := range []string{"", "+eval", "+evalsha", "+script|load", "+get", "+del", "+pttl", "+pexpire"} {
		t.Run("without "+without, func(t *testing.T) {
			f := newFleet(t, 3)
			leastPrivilege(f, without)
			if without == "" || without == "+eval" { // not used
				sealed := config
				sealed.MaxTTL = time.Minute
				acquired(t, f.founded(sealed), "r", time.Second)
				return
			}
			c := f.client(config)
			var p *multiplex.PreflightError
			eventually(t, 5*time.Second, func() error {
				n := c.Nodes()[0]
				switch {
				case !errors.Is(n.Err, multiplex.ErrPermissions) || !errors.As(n.Err, &p):
					return fmt.Errorf("not ErrPermissions: %w", n.Err)
				case !strings.Contains(strings.ToLower(p.Found), strings.ReplaceAll(without[1:], "|", " ")):
					return fmt.Errorf("does not name the command: %w", n.Err)
				case !strings.Contains(p.Advice, without):
					return fmt.Errorf("does not say what to grant: %w", n.Err)
				case strings.Contains(n.Err.Error(), "lock:"), strings.Contains(n.Err.Error(), "secret"):
					return fmt.Errorf("says too much: %w", n.Err)
				}
				return nil
			})
			_, rule, _ := strings.Cut(p.Advice, "ACL SETUSER ")
			rule, _, _ = strings.Cut(rule, ";")
			rule = strings.NewReplacer("<user>", "redlock", "<prefix>", "lock:").Replace(rule)
			for i := range f.servers {
				f.must(i, append([]string{"ACL", "SETUSER"}, strings.Fields(rule)...)...)
			}
			fixed := f.client(config)
			f.allUp(fixed, inTheEnd)
			lock := acquired(t, fixed, "r", time.Second)
			if err := lock.Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// With a few rights more, those of docs/deploy.md suffice for read/write locks,
// semaphores and fair locks. Without these, the nodes answer with an error.
func TestAUserForLockers_R22(t *testing.T) {
	f := newFleet(t, 1, redistest.OverTCP)
	const ofPermits = pure.Rights + " " + pure.RightsOfPermits
	for i, rights := range []string{ofPermits + " " + pure.RightsOfQueues, ofPermits, pure.Rights} {
		name := "u" + strconv.Itoa(i)
		f.must(0, append([]string{"ACL", "SETUSER", name, "on", ">hunter2", "~lock:*"}, strings.Fields(rights)...)...)
		config := f.reach(redlock.Config{Forgetful: true, NodeTimeout: patience})
		config.Username, config.Password, config.Prefix = name, "hunter2", "lock:"
		c, err := redlock.New(t.Context(), config)
		require.NoError(t, err)
		for kind, k := range map[string]redlock.Locker{
			"read": c.RW("r").Read(), "write": c.RW("w").Write(), "fair": c.Fair("f"), "a permit": c.Semaphore("s", 2),
		} {
			lock, err := k.TryAcquire(t.Context(), time.Second)
			if i > 1 || i > 0 && kind != "a permit" {
				require.ErrorIs(t, err, redlock.ErrNoQuorum, kind)
				require.Regexp(t, `answered with the error (NOPERM|ERR)`, err.Error(), kind) // not all servers have a class for it
				continue
			}
			require.NoError(t, err, kind)
			lock, err = lock.Extend(t.Context(), time.Second)
			require.NoError(t, err, kind)
			found, err := admin.Inspect(t.Context(), c, lock.Resource())
			require.NoError(t, err, kind)
			require.Contains(t, []admin.LockState{admin.StateHeld, admin.StateShared}, found.State, kind)
			require.NoError(t, lock.Release(t.Context()), kind)
		}
		rw := c.RW("x")
		if write, err := rw.Write().TryAcquire(t.Context(), time.Second); i == 0 {
			require.NoError(t, err)
			read, err := rw.Downgrade(t.Context(), write, time.Second)
			require.NoError(t, err)
			require.NoError(t, read.Release(t.Context()))
		}
		require.NotEqual(t, int64(-1), f.must(0, "PTTL", "lock:r:redlock:readers"), "a reader that may not be removed must end")
		_, err = admin.Inspect(t.Context(), c, "plain")
		require.NoError(t, err)
		f.must(0, "ZADD", "lock:readers:redlock:readers", "1", "x")
		if _, err := admin.Inspect(t.Context(), c, "readers"); i == 0 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "it must not look free")
		}
		require.NoError(t, c.Close(context.Background()))
	}
}

// The rights of docs/deploy.md suffice for fenced locks, and a user without
// TIME is refused (R22).
func TestAUserForFencedLocks_R22(t *testing.T) {
	f := newFleet(t, 1, redistest.OverTCP)
	for i, without := range []string{"", "+time", "+mget"} {
		user := []string{"ACL", "SETUSER", "u" + strconv.Itoa(i), "on", ">hunter2", "~lock:*"}
		for _, right := range strings.Fields(pure.Rights) {
			if right != without {
				user = append(user, right)
			}
		}
		f.must(0, user...)
		config := f.reach(redlock.Config{Fenced: true, MaxTTL: quarantineTTL, NodeTimeout: patience})
		config.Username, config.Password, config.Prefix = user[2], "hunter2", "lock:"
		if without == "" {
			_, err := redlock.Init(t.Context(), config)
			require.NoError(t, err)
		}
		c, err := redlock.New(t.Context(), config)
		require.NoError(t, err)
		if without == "" {
			require.NoError(t, c.Ready(t.Context()))
		}
		lock, err := c.TryAcquire(t.Context(), "r", time.Second)
		if without == "" {
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
		} else {
			require.ErrorIs(t, err, multiplex.ErrPermissions, "without %s", without)
		}
		require.NoError(t, c.Close(context.Background()))
	}
}

// Pushes need the rights client|tracking and client|caching; without them a
// waiting caller polls, and everything else works.
func TestFaultUserWhoMayNotTrack(t *testing.T) {
	f := newFleet(t, 3)
	const most = "reset on >secret resetchannels ~* " + pure.Rights + " -client|tracking -client|caching"
	for name, c := range map[string]struct {
		may  string
		told bool
	}{
		"both":         {" +client|tracking +client|caching", true},
		"not to cache": {" +client|tracking", false},
		"neither":      {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range f.servers {
				f.must(i, append([]string{"ACL", "SETUSER", "locker"}, strings.Fields(most+c.may)...)...)
			}
			a := f.client(redlock.Config{NodeTimeout: 100 * time.Millisecond})
			b := f.client(redlock.Config{Username: "locker", Password: "secret", NodeTimeout: unhurried})
			f.allUp(a, inTheEnd)
			f.allUp(b, inTheEnd)
			bestOf(t, func() error {
				took := handovers(f, a, b, released)
				t.Logf("handed over after %v", took)
				if took > 400*time.Millisecond {
					return fmt.Errorf("handed over after %v", took)
				}
				return nil
			})
			asked, tracked := 0, 0
			for i := range f.servers {
				stats, _ := f.must(i, "INFO", "commandstats").(string)
				for line := range strings.Lines(stats) {
					if strings.HasPrefix(line, "cmdstat_client|caching:") {
						asked++
					}
				}
				list, _ := f.must(i, "CLIENT", "LIST").(string)
				for line := range strings.Lines(list) {
					if strings.Contains(line, " flags=t") && strings.Contains(line, " user=locker ") {
						tracked++
					}
				}
				f.must(i, "CONFIG", "RESETSTAT")
			}
			if c.told && (asked != 3 || tracked != 3) {
				t.Errorf("%d nodes were asked to track, and %d do", asked, tracked)
			}
			_ = b.Close(context.Background())
		})
	}
}
