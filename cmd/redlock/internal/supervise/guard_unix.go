//go:build unix

package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redmux/redmux/cmd/internal/printable"
	"github.com/redmux/redmux/cmd/redlock/internal/clock"
)

// A Guard is the guard of one run, as its wrapper sees it.
type Guard struct {
	id     string // of the run
	group  int    // the process group, which is the guard's pid
	cmd    *exec.Cmd
	orders *os.File
	died   chan struct{} // closed when the guard has ended. It stays a zombie until End, so that its group's number is not reused.
}

// guardStart bounds how long a guard may take to be ready.
const guardStart = 10 * time.Second

// StartGuard starts a guard and waits until it is ready. The caller ends it.
// The guard says on stderr why it kills a command, if stderr is an *os.File:
// with any other writer, End would wait for every process that holds the pipe.
func StartGuard(stderr io.Writer) (*Guard, error) {
	orders, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orders.Close()
	id := newID()
	cmd := exec.Command(ownPath(), guardArgument, id)
	cmd.Args[0] = "redlock"
	cmd.Env = without(os.Environ(), MarkVariable) // it must survive the end of a run around this one
	cmd.Stdin = orders
	if file, ok := stderr.(*os.File); ok {
		cmd.Stderr = file
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ready, err := cmd.StdoutPipe()
	if err == nil {
		err = own.start(func() (int, error) {
			if err := cmd.Start(); err != nil {
				return 0, err
			}
			return cmd.Process.Pid, nil
		})
	}
	if err != nil {
		write.Close()
		return nil, err
	}
	g := &Guard{id: id, group: cmd.Process.Pid, cmd: cmd, orders: write, died: make(chan struct{})}
	err = awaitReady(ready)
	go func() {
		defer close(g.died)
		_, _ = io.Copy(io.Discard, ready) // it writes nothing more, so this is its end
	}()
	if err != nil {
		g.End()
		return nil, err
	}
	return g, nil
}

func awaitReady(ready io.Reader) error {
	if pipe, ok := ready.(*os.File); ok {
		_ = pipe.SetReadDeadline(time.Now().Add(guardStart))
	}
	var one [1]byte
	if _, err := io.ReadFull(ready, one[:]); err != nil {
		return errors.New("it does not answer")
	}
	if pipe, ok := ready.(*os.File); ok {
		_ = pipe.SetReadDeadline(time.Time{})
	}
	return nil
}

// tell sends the moment until which the group may live, and reports whether it
// was sent.
func (g *Guard) tell(until clock.Moment) bool { return g.order(until.String()) }

// tellCommand sends the command's pid, and reports whether it was sent.
func (g *Guard) tellCommand(pid int) bool { return g.order(guardedCommand + strconv.Itoa(pid)) }

// order hardly waits: a line is written to a pipe as a whole or not at all, and
// a guard that is stopped does not read.
func (g *Guard) order(line string) bool {
	_ = g.orders.SetWriteDeadline(time.Now().Add(tellTakes))
	_, err := g.orders.WriteString(line + "\n")
	return err == nil
}

// tellTakes is far longer than a write takes to a pipe with room, even on a
// busy machine.
const tellTakes = 20 * time.Millisecond

// End ends the guard and nothing else of the group. It may be called twice.
func (g *Guard) End() {
	_ = g.cmd.Process.Kill()
	<-g.died
	_ = g.orders.Close()
	_ = g.cmd.Wait()
	own.forget(g.group)
}

// beGuard is the guard's work. It returns only if it cannot begin.
func beGuard(id string) {
	// Ignored signals would be inherited, but a guard starts nothing.
	signal.Ignore()
	group := syscall.Getpgrp()
	if group != syscall.Getpid() {
		return // it was called by hand, and the group is not its own to kill
	}
	if _, err := os.Stdout.Write([]byte{'!'}); err != nil {
		return // the wrapper is gone, and has started nothing
	}
	why, command := watch(os.Stdin)
	sayInPassing(os.Stderr, fmt.Sprintf("redlock: guard: %s; killing what it has started", why))
	if command > 1 {
		_ = syscall.Kill(-command, syscall.SIGKILL) // such a group exists only if the command made it
	}
	// The signal to its own group ends the guard too, so it is the last act. The
	// others of the group are killed one by one before the strays are looked for.
	killGroupButUs()
	killStrays(id)
	_ = syscall.Kill(-group, syscall.SIGKILL)
}

// mostSaid is how many characters of a line are said: it may have the words of
// 16 nodes.
const mostSaid = 8000

// sayInPassing writes a line, but does not wait for a pipe that nothing reads:
// the message must not delay what it announces.
func sayInPassing(w io.Writer, text string) {
	said := make(chan struct{})
	go func() {
		fmt.Fprintln(w, printable.Line(text, mostSaid))
		close(said)
	}()
	select {
	case <-said:
	case <-time.After(sayingTakes):
	}
}

// sayingTakes bounds how long a message may delay what it announces.
const sayingTakes = 5 * time.Millisecond

// watch returns when the group must be killed. It returns why, and the
// command's pid, or 0 if it was not told.
func watch(orders *os.File) (why string, command int) {
	in := bufio.NewReaderSize(orders, 256)
	fd := []unix.PollFd{{Fd: int32(orders.Fd()), Events: unix.POLLIN}} // Fd makes reads block
	var until *clock.Moment
	for {
		wait := -1
		if until != nil {
			left := until.Sub(clock.Now())
			// Orders are read before the time is compared: the guard may have
			// been stopped while they came.
			wait = int(max(0, min(left, lookMost)).Milliseconds())
		}
		if in.Buffered() > 0 {
			wait = 0
		}
		switch n, err := unix.Poll(fd, wait); {
		case err == unix.EINTR:
		case err != nil:
			return "it cannot watch: " + err.Error(), command
		case n > 0 || in.Buffered() > 0:
			line, err := in.ReadSlice('\n')
			if err != nil {
				return "redlock is gone", command
			}
			order := strings.TrimSuffix(string(line), "\n")
			if pid, ok := strings.CutPrefix(order, guardedCommand); ok {
				command, err = strconv.Atoi(pid)
			} else {
				until, err = parseUntil(order)
			}
			if err != nil {
				return "it does not understand its input", command
			}
		case until != nil && until.Sub(clock.Now()) <= 0:
			return "the lock's validity is over and redlock has not acted", command
		}
	}
}

func parseUntil(text string) (*clock.Moment, error) {
	m, err := clock.Parse(text)
	return &m, err
}

// ownPath is the path of this program, even if its file was replaced since.
func ownPath() string {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}
