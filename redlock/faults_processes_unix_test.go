//go:build unix

package redlock_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// childNodes tells a process of this test binary that it is the holder, and
// names its nodes.
const childNodes = "REDMUX_TEST_HOLD_NODES"

// A process that holds a lock is stopped past its validity, and another takes
// the lock. When it continues, the first query says that the lock is lost, and
// its release does not touch the next holder's keys (R9, R15).
func TestFaultStoppedHolder_R9_R15(t *testing.T) {
	if nodes := os.Getenv(childNodes); nodes != "" {
		holdAsChild(strings.Split(nodes, " "))
		return
	}
	f := newFleet(t, 5, redistest.OverTCP)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	child, in, told := f.startChild("TestFaultStoppedHolder_R9_R15")
	told("held")
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lock, err := c.Acquire(context.Background(), "r", time.Minute) // once the child's has expired
	if err != nil {
		t.Fatal(err)
	}
	token := lock.Token()
	// The question is in its pipe already, so it is asked before, or just when,
	// a timer can fire.
	fmt.Fprintln(in, "held?")
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	told("lost: true")
	told("released: true")
	if n := f.on("r", string(token[:])); n < 3 {
		t.Errorf("the next holder has %d keys left", n)
	}
	if err := lock.Release(context.Background()); err != nil {
		t.Errorf("the next holder's release: %v", err)
	}
}

// holdAsChild is the child. It answers in lines.
func holdAsChild(nodes []string) {
	c, err := redlock.New(context.Background(), redlock.Config{Nodes: redlock.Nodes(nodes...), Forgetful: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := c.Hold(context.Background(), "r", redlock.HoldOptions{TTL: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	err = h.Err()
	fmt.Println("lost:", errors.Is(err, redlock.ErrLost))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for err = h.Release(ctx); errors.Is(err, redlock.ErrNoQuorum); { // its connections may have been shed meanwhile
		time.Sleep(10 * time.Millisecond)
		err = h.Release(ctx)
	}
	if !errors.Is(err, redlock.ErrNotHeld) {
		fmt.Println("released:", err)
		return
	}
	fmt.Println("released: true")
	_ = c.Close(ctx)
}

// Work that queries its context over and over, in a process that is stopped
// past the validity, finds Done closed at the first query after SIGCONT: when
// the clock says that the validity is over, Done must not be open (R15).
func TestFaultStoppedWorkAsksDone_R15(t *testing.T) {
	if nodes := os.Getenv(childNodes); nodes != "" {
		workAsChild(strings.Split(nodes, " "))
		return
	}
	f := newFleet(t, 1, redistest.OverTCP)
	child, _, told := f.startChild("TestFaultStoppedWorkAsksDone_R15")
	for round := range stoppedRounds {
		told(fmt.Sprint("works ", round))
		if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		eventually(f, inTheEnd, func() error { return f.orphans(nil) }) // the key has expired
		if err := child.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		told("done")
	}
}

const stoppedRounds = 6

// workAsChild is the child of TestFaultStoppedWorkAsksDone_R15. It uses the
// contexts of a Hold and of Do in turn.
func workAsChild(nodes []string) {
	runtime.GOMAXPROCS(1) // so that the work continues before the goroutine that the timers wake
	c, err := redlock.New(context.Background(), redlock.Config{Nodes: redlock.Nodes(nodes...), Forgetful: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	work := func(round int, h *redlock.Hold, ctx context.Context) {
		fmt.Println("works", round)
		for {
			over := time.Now().After(h.Until())
			select {
			case <-ctx.Done():
				fmt.Println("done")
				return
			default:
			}
			if over {
				fmt.Println("open; Err says", h.Err())
				return
			}
		}
	}
	options := redlock.HoldOptions{TTL: time.Second, NoRenewal: true}
	for round := range stoppedRounds {
		key := fmt.Sprint("r", round)
		if round%2 == 0 {
			err = c.Lock(key).DoWith(context.Background(), options, func(ctx context.Context) error {
				h, _ := redlock.FromContext(ctx)
				work(round, h, ctx)
				return nil
			})
		} else if h, holdErr := c.Hold(context.Background(), key, options); holdErr != nil {
			fmt.Println(holdErr)
		} else {
			work(round, h, h.Context())
			err = h.Release(context.Background())
		}
		if err != nil && !errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrNotHeld) &&
			!errors.Is(err, redlock.ErrNoQuorum) {
			fmt.Println(err)
		}
	}
}

// startChild runs a test of this binary in another process, which gets the
// nodes' URLs. told waits for the next line that the child prints.
func (f *fleet) startChild(test string) (child *exec.Cmd, in io.Writer, told func(want string)) {
	f.Helper()
	child = exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.timeout=300s")
	child.Env = append(os.Environ(), childNodes+"="+strings.Join(redistest.URLs(f.servers), " "))
	in, err := child.StdinPipe()
	if err != nil {
		f.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	if err := child.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	lines := bufio.NewScanner(out)
	return child, in, func(want string) {
		f.Helper()
		if !lines.Scan() {
			f.Fatalf("the child is gone: %v", lines.Err())
		}
		if lines.Text() != want {
			f.Fatalf("the child says %q, not %q", lines.Text(), want)
		}
	}
}

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
