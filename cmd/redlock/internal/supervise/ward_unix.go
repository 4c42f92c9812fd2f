//go:build unix

package supervise

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redmux/redmux/cmd/internal/printable"
	"github.com/redmux/redmux/cmd/redlock/internal/clock"
)

// A ward is the command as its guard sees it, with all that the command has
// started.
type ward struct {
	stdio []*os.File

	// alone is closed when the command has ended and no other child is left. It
	// is nil before the command is started. It belongs to the goroutine that
	// watches.
	alone chan struct{}

	mu  sync.Mutex // guards the following; nothing is reaped while it is held
	pid int        // of the command while it lives; otherwise 0
}

// beGuard is the guard's work. It returns only if it cannot begin.
func beGuard(stdin, stdout string) {
	group := syscall.Getpgrp()
	if group != syscall.Getpid() {
		return // it was called by hand, and the group is not its own to kill
	}
	// Signals to the group must not end it. They are not ignored, since the command
	// would inherit that; those that were ignored before stay so.
	for number := syscall.Signal(1); number <= lastSignal; number++ {
		if !ignores(number) {
			Listen(make(chan os.Signal, 1), number)
		}
	}
	adoptOrphans()
	w := &ward{stdio: []*os.File{inherited(stdin), inherited(stdout), os.Stderr}}
	if _, err := os.Stdout.Write([]byte{'!'}); err != nil {
		return // the wrapper is gone, and has started nothing
	}
	why := w.watch(os.Stdin)
	signal.Ignore(syscall.SIGTTOU) // a message to the terminal must not stop it
	sayInPassing(os.Stderr, fmt.Sprintf("redlock: guard: %s; killing what it has started", why))
	w.kill()
	_ = syscall.Kill(-group, syscall.SIGKILL) // it ends the guard too, so it is the last act
}

// lastSignal is the last one of Linux. Package os/signal ignores greater numbers
// than there are.
const lastSignal syscall.Signal = 64

// inherited returns a file that the wrapper has left open for the command.
func inherited(number string) *os.File {
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil
	}
	syscall.CloseOnExec(n)
	return os.NewFile(uintptr(n), number)
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

// watch returns when all must be killed, and why.
func (w *ward) watch(orders *os.File) (why string) {
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
			return "it cannot watch: " + err.Error()
		case n > 0 || in.Buffered() > 0:
			line, err := in.ReadSlice('\n')
			if err != nil {
				return "redlock is gone"
			}
			if size, ok := strings.CutPrefix(strings.TrimSuffix(string(line), "\n"), startOrder); ok {
				err = w.startBy(in, size)
			} else {
				until, err = parseUntil(strings.TrimSuffix(string(line), "\n"))
			}
			if errors.Is(err, io.EOF) {
				return "redlock is gone"
			}
			if err != nil {
				return "it does not understand its input"
			}
		case until != nil && until.Sub(clock.Now()) <= 0:
			return "the lock's validity is over and redlock has not acted"
		}
	}
}

func parseUntil(text string) (*clock.Moment, error) {
	m, err := clock.Parse(text)
	return &m, err
}

// startBy reads an order of so many bytes, and starts its command.
func (w *ward) startBy(in io.Reader, size string) error {
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > mostOrder || w.alone != nil {
		return errors.New("no order")
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(in, text); err != nil {
		return io.EOF
	}
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	w.alone = make(chan struct{})
	go w.tend(o)
	return nil
}

// tend starts the command and reports what becomes of it, until no child is
// left.
func (w *ward) tend(o order) {
	// Linux ties Pdeathsig to the thread that forked (prctl(2),
	// PR_SET_PDEATHSIG). This thread waits for the command, and so lives as long
	// as it.
	runtime.LockOSThread()
	sys := new(syscall.SysProcAttr)
	dieWithUs(sys)
	process, err := os.StartProcess(string(o.Path), texts(o.Args), &os.ProcAttr{Env: texts(o.Env), Files: w.stdio, Sys: sys})
	defer close(w.alone)
	if err != nil {
		number := syscall.EINVAL
		errors.As(err, &number)
		tellWrapper(wordFailed, int(number))
		return
	}
	w.mu.Lock()
	command := process.Pid
	w.pid = command
	w.mu.Unlock()
	_ = process.Release()
	tellWrapper(wordStarted, command)
	for {
		pid, status, err := w.wait(command)
		switch {
		case err != nil:
			return
		case pid != command:
		case status.Exited():
			tellWrapper(wordEnded, status.ExitStatus())
		case status.Signaled():
			tellWrapper(wordEnded, codeSignal+int(status.Signal()))
		case status.Stopped():
			tellWrapper(wordStopped, int(status.StopSignal()))
		}
	}
}

// codeSignal plus the number of a signal is the exit code of a process that the
// signal ended.
const codeSignal = 128

func tellWrapper(word string, number int) { fmt.Printf("%s %d\n", word, number) }

// kill kills the command and all that it has started, one process after the
// other, but not the guard.
func (w *ward) kill() {
	if w.alone == nil {
		return
	}
	w.mu.Lock()
	if w.pid > 1 {
		_ = syscall.Kill(w.pid, syscall.SIGKILL)
		_ = syscall.Kill(-w.pid, syscall.SIGKILL) // such a group exists only if the command made it
	}
	w.mu.Unlock()
	w.killAdopted()
}

func texts(bytes [][]byte) (out []string) {
	for _, b := range bytes {
		out = append(out, string(b))
	}
	return out
}
