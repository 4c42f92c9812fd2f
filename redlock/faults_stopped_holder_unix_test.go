//go:build unix

package redlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// childNodes tells a process of this test's binary that it is the one that holds, and on which nodes.
const childNodes = "REDMUX_TEST_HOLD_NODES"

// A process that holds a lock is stopped past its validity, and another takes the lock. When it goes on, the first question it
// puts answers: lost; and its release does not touch the next holder's keys (R9, R15).
func TestFaultStoppedHolder_R9_R15(t *testing.T) {
	if nodes := os.Getenv(childNodes); nodes != "" {
		holdAsChild(strings.Split(nodes, " "))
		return
	}
	f := newFleet(t, 5, redistest.OverTCP)
	c := f.client(redlock.Config{NodeTimeout: unhurried})
	f.allUp(c, inTheEnd)
	child := exec.Command(os.Args[0], "-test.run=^TestFaultStoppedHolder_R9_R15$", "-test.timeout=60s")
	child.Env = append(os.Environ(), childNodes+"="+strings.Join(redistest.URLs(f.servers), " "))
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	lines := bufio.NewScanner(out)
	told := func(want string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the child is gone: %v", lines.Err())
		}
		if lines.Text() != want {
			t.Fatalf("the child says %q, not %q", lines.Text(), want)
		}
	}
	told("held")
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lock, err := c.Acquire(context.Background(), "r", time.Minute) // when the child's has expired
	if err != nil {
		t.Fatal(err)
	}
	token := lock.Token()
	// The question lies in its pipe already, so that it is put before any timer can have gone off, or right then.
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

// holdAsChild is what the child does. Its answers are lines.
func holdAsChild(nodes []string) {
	c, err := redlock.Open(nodes...)
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
