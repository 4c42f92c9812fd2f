package redlock_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// program is a server executable and the native release commands that it has.
type program struct {
	path   string
	native []string
}

// programs returns the servers that the environment names, in the list
// REDMUX_SERVERS or one by one. Each is asked for its commands, not for its
// version (R25).
func programs(t *testing.T) (with, without []program) {
	t.Helper()
	redistest.Require(t)
	paths := filepath.SplitList(os.Getenv("REDMUX_SERVERS"))
	if path, ok := redistest.Find(); ok {
		paths = append(paths, path)
	}
	t.Setenv("REDMUX_SERVER", "")
	if path, ok := redistest.Find(); ok {
		paths = append(paths, path)
	}
	seen := make(map[string]bool)
	for _, path := range paths {
		if path == "" || seen[path] { // a list may have empty elements
			continue
		}
		seen[path] = true
		s, err := redistest.Start(redistest.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		p := program{path, nativeCommands(s)}
		_ = s.Close()
		if len(p.native) > 0 {
			with = append(with, p)
		} else {
			without = append(without, p)
		}
	}
	return with, without
}

// nativeCommands returns the native release commands of a server, by its
// answers.
func nativeCommands(s *redistest.Server) (all []string) {
	for _, command := range [][]string{{"DELEX", "none", "IFEQ", "a"}, {"DELIFEQ", "none", "a"}} {
		if v, err := s.Do(command...); err == nil && v == int64(0) {
			all = append(all, command[0])
		}
	}
	return all
}

// replaceable starts servers of a program. The next start of the first one runs
// the program that become names.
func replaceable(t *testing.T, n int, p program) (f *fleet, become func(program)) {
	t.Helper()
	redistest.NoLeaks(t)
	file, err := os.CreateTemp("", "rt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file.Name()) })
	_ = file.Close()
	become = func(p program) {
		script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", p.path)
		if err := os.WriteFile(file.Name(), []byte(script), 0o700); err != nil { //nolint:gosec // it must be executable
			t.Fatal(err)
		}
		if err := os.Chmod(file.Name(), 0o700); err != nil { //nolint:gosec // likewise
			t.Fatal(err)
		}
	}
	become(p)
	f = &fleet{TB: t}
	for i := range n {
		path := p.path
		if i == 0 {
			path = file.Name()
		}
		s, err := redistest.Start(redistest.Options{Path: path, TCP: true, Unix: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		f.servers = append(f.servers, s)
	}
	return f, become
}

// commandErrors returns how many commands a server has answered with an
// unclassified error since its start.
func (f *fleet) commandErrors(server int) int {
	f.Helper()
	stats := f.must(server, "INFO", "errorstats").(string)
	found := regexp.MustCompile(`errorstat_ERR:count=(\d+)`).FindStringSubmatch(stats)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

// R25 under load: an older server takes over the address of one of five. The
// group has left the native form before that server gets a command, so it never
// gets an unknown one. Then a newer one comes back, and with it the form.
// Neither change leaves anything behind.
func TestFaultFormIsLeftForAnOlderServer_R25(t *testing.T) {
	with, without := programs(t)
	if len(with) == 0 || len(without) == 0 {
		t.Skipf("%d servers with a native release, %d without: REDMUX_SERVERS must name one of each", len(with), len(without))
	}
	for _, newer := range with {
		for _, older := range without {
			t.Run(newer.native[0]+" and "+filepath.Base(filepath.Dir(older.path)), func(t *testing.T) {
				takeOver(t, newer, older)
			})
		}
	}
}

func takeOver(t *testing.T, newer, older program) {
	f, become := replaceable(t, 5, newer)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, 2*inTheEnd)
	is := func(form string) func() error {
		return func() error {
			if got := c.Stats().ReleaseForm; got != form {
				return fmt.Errorf("released by %s, not by %s", got, form)
			}
			return nil
		}
	}
	if err := is(newer.native[0])(); err != nil {
		t.Fatal(err)
	}
	l := f.load(c, workload{callers: 32})
	l.until(300, 2*inTheEnd)

	become(older)
	before := c.Nodes()[0].Connects
	if err := f.servers[0].Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*inTheEnd, is("script"))
	l.until(300, 2*inTheEnd)
	ours := c.Nodes()[0].Connects - before
	errs := f.commandErrors(0)
	// A new client's handshake is all that it sends, if it comes by the socket's
	// file: by an address, it would dial once more, to look behind it (R22).
	stranger := f.client(redlock.Config{Nodes: redlock.Nodes(f.servers[0].UnixURL())})
	f.allUp(stranger, 2*inTheEnd)
	each := f.commandErrors(0) - errs
	if ours != 1 || errs != each {
		t.Errorf("%d errors to %d connections, of which a handshake explains %d each", errs, ours, each)
	}

	become(newer)
	if err := f.servers[0].Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*inTheEnd, is(newer.native[0]))
	f.allUp(c, 2*inTheEnd)
	l.until(300, 2*inTheEnd)
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	f.noOrphans(unprompted)
	if err := is(newer.native[0])(); err != nil {
		t.Error(err)
	}
}

// R24, R25: the right to the native command is withdrawn under load. The script
// cures each release in flight, without side effects, and nothing is left
// behind.
func TestFaultNativeReleaseIsTakenAwayUnderLoad_R24(t *testing.T) {
	with, _ := programs(t)
	if len(with) == 0 {
		t.Skip("no server with a native release")
	}
	for _, p := range with {
		t.Run(p.native[0], func(t *testing.T) {
			f, _ := replaceable(t, 3, p)
			c := f.client(redlock.Config{NodeTimeout: unhurried})
			f.allUp(c, 2*inTheEnd)
			if got := c.Stats().ReleaseForm; got != p.native[0] {
				t.Fatalf("released by %s", got)
			}
			l := f.load(c, workload{callers: 64})
			l.until(300, 2*inTheEnd)
			f.each([]int{0, 1, 2}, func(s *redistest.Server) error {
				_, err := s.Do("ACL", "SETUSER", "default", "-"+p.native[0])
				return err
			})
			l.until(300, 2*inTheEnd)
			l.end()
			l.fails(fewFailures, redlock.ErrNoQuorum)
			f.noOrphans(unprompted)
			for i, n := range c.Nodes() {
				if n.Connects != 1 || n.Debts != 0 {
					t.Errorf("node %d was connected %d times and has %d debts", i, n.Connects, n.Debts)
				}
			}
			if got := c.Stats().ReleaseForm; got != "script" {
				t.Errorf("released by %s", got)
			}
			lock := acquired(t, c, "r", time.Minute)
			if err := lock.Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
