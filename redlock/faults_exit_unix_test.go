//go:build unix

package redlock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// exits is how many processes exit in each case of
// TestFaultExitRightAfterACall_R7_R28. The figures in the documentation are
// from 200.
var exits = flag.Int("exit.runs", 3, "processes that exit right after a call, for each case")

// exitAfter tells a process of this test binary after which call to exit.
const exitAfter = "REDMUX_TEST_EXIT_AFTER"

// A process that exits right after a call leaves no keys if it has called
// Close. Otherwise it may, if other goroutines use the client: then the caller
// is not always the one that writes its command.
func TestFaultExitRightAfterACall_R7_R28(t *testing.T) {
	if call := os.Getenv(exitAfter); call != "" {
		exitAsChild(strings.Fields(call), strings.Split(os.Getenv(childNodes), " "))
	}
	const other = "another client's"
	for _, n := range []int{3, 5} {
		f := newFleet(t, n, redistest.OverTCP)
		for _, c := range []struct {
			call   string
			close  bool
			others int // callers of the same client that go on
		}{
			{"release", false, 0}, {"held", false, 0},
			{"release", false, 16}, {"held", false, 16},
			{"release", true, 16}, {"held", true, 16},
		} {
			left := 0
			for i := range *exits {
				resource := fmt.Sprint("r:", i)
				if c.call == "held" { // by a quorum: the others grant the attempt, which is undone there
					for j := range multiplex.Quorum(n) {
						f.must((i+j)%n, "SET", resource, other)
					}
				}
				f.exitAfter(fmt.Sprint(c.call, " ", resource, " ", c.others, " ", c.close))
				time.Sleep(20 * time.Millisecond) // for what is still in the sockets
				found := false
				for j := range n {
					v := f.must(j, "GET", resource)
					found = found || v != nil && v != other
					f.must(j, "DEL", resource)
				}
				if found {
					left++
				}
			}
			t.Logf("N = %d, %+v: %d of %d left keys", n, c, left, *exits)
			if c.close && left > 0 {
				t.Errorf("N = %d, %+v: %d of %d left keys", n, c, left, *exits)
			}
		}
	}
}

// exitAfter runs a process that exits after a call.
func (f *fleet) exitAfter(call string) {
	f.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestFaultExitRightAfterACall_R7_R28$", "-test.timeout=60s")
	child.Env = append(os.Environ(), exitAfter+"="+call, childNodes+"="+strings.Join(redistest.URLs(f.servers), " "))
	if out, err := child.CombinedOutput(); err != nil {
		f.Skipf("the machine is too busy: %s: %v: %s", call, err, out)
	}
}

// exitAsChild makes the call and exits.
func exitAsChild(words, nodes []string) {
	fail := func(err error) {
		fmt.Println(err)
		os.Exit(1)
	}
	call, resource, closes := words[0], words[1], words[3] == "true"
	others, _ := strconv.Atoi(words[2])
	ctx := context.Background()
	c, err := redlock.New(ctx, redlock.Config{Nodes: redlock.Nodes(nodes...), Forgetful: true, NodeTimeout: unhurried})
	if err != nil {
		fail(err)
	}
	for up := 0; up < len(nodes); time.Sleep(time.Millisecond) {
		up = 0
		for _, n := range c.Nodes() {
			if n.State == redlock.NodeUp {
				up++
			}
		}
	}
	for i := range others {
		go func() {
			for ctx.Err() == nil {
				if lock, err := c.TryAcquire(ctx, fmt.Sprint("other:", i), time.Second); err == nil {
					_ = lock.Release(ctx)
				}
			}
		}()
	}
	if others > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	lock, err := c.TryAcquire(ctx, resource, time.Minute)
	switch {
	case call == "held" && !errors.Is(err, redlock.ErrHeld), call == "release" && err != nil:
		fail(err)
	case call == "release":
		if err := lock.Release(ctx); err != nil {
			fail(err)
		}
	}
	if closes {
		_ = c.Close(ctx)
	}
	os.Exit(0)
}
