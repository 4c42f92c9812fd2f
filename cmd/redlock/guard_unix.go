//go:build unix

package main

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
)

// A guard is the guard's process as the first process sees it.
type guard struct {
	id     string // of the run
	group  int    // the process group, which is the guard's pid
	cmd    *exec.Cmd
	orders *os.File
	died   chan struct{} // closed when the guard has ended. It is a zombie until end, so that no other group gets its number.
}

// guardStart bounds how long a guard may take to be ready.
const guardStart = 10 * time.Second

// startGuard starts a guard and waits until it is ready.
func (*runCommand) startGuard(p *process) (*guard, error) {
	orders, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orders.Close()
	id := newID()
	cmd := exec.Command(ownPath(), guardArgument, id)
	cmd.Args[0] = "redlock"
	cmd.Env = without(os.Environ(), markVariable) // it outlives us where a run that we are under is stopped
	cmd.Stdin = orders
	if file, ok := p.stderr.(*os.File); ok {
		cmd.Stderr = file // a writer of another kind would have us wait for whoever has it
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ready, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		write.Close()
		return nil, err
	}
	g := &guard{id: id, group: cmd.Process.Pid, cmd: cmd, orders: write, died: make(chan struct{})}
	err = awaitReady(ready)
	go func() {
		defer close(g.died)
		_, _ = io.Copy(io.Discard, ready) // it writes nothing more, so this is its end
	}()
	if err != nil {
		g.end()
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

// tell says until when the group may live, and reports whether it could.
func (g *guard) tell(until moment) bool { return g.order(until.String()) }

// tellCommand says which process the command is, and reports whether it could.
func (g *guard) tellCommand(pid int) bool { return g.order(guardedCommand + strconv.Itoa(pid)) }

// order hardly waits: a line to a pipe is written as a whole or not at all, and a guard that is stopped does not read.
func (g *guard) order(line string) bool {
	_ = g.orders.SetWriteDeadline(time.Now().Add(tellTakes))
	_, err := g.orders.WriteString(line + "\n")
	return err == nil
}

// tellTakes is far longer than a write takes that need not wait, also where others have the processor.
const tellTakes = 20 * time.Millisecond

// end ends the guard, and nobody else of the group. It may be called twice.
func (g *guard) end() {
	_ = g.cmd.Process.Kill()
	<-g.died
	_ = g.orders.Close()
	_ = g.cmd.Wait()
}

// beGuard is the guard's process. It returns only if it is none.
func beGuard(id string) {
	// Ignoring is enough, and is not inherited, since a guard starts nothing.
	signal.Ignore()
	group := syscall.Getpgrp()
	if group != syscall.Getpid() {
		return // somebody called it by hand: it must not kill the group of whoever that is
	}
	if _, err := os.Stdout.Write([]byte{'!'}); err != nil {
		return // who started us is gone, and has started nothing
	}
	why, command := watch(os.Stdin)
	// We are of the group, so what is to be said is said before.
	sayInPassing(os.Stderr, fmt.Sprintf("redlock: guard: %s; killing the command", why))
	if command > 1 {
		_ = syscall.Kill(-command, syscall.SIGKILL) // there is no such group unless the command has made it
	}
	// The signal to our own group is our end, too, so that what else there is to do comes before, and the group before the strays.
	killGroupButUs()
	killStrays(id)
	_ = syscall.Kill(-group, syscall.SIGKILL)
}

// sayInPassing says something, but is not kept by a pipe that nobody reads: what has to be done in time is not said only.
func sayInPassing(w io.Writer, text string) {
	said := make(chan struct{})
	go func() {
		fmt.Fprintln(w, text)
		close(said)
	}()
	select {
	case <-said:
	case <-time.After(sayingTakes):
	}
}

// sayingTakes bounds how long a message may delay what it is about.
const sayingTakes = 5 * time.Millisecond

// watch returns when the group is to be killed, why, and which process the command is, 0 if that was not told.
func watch(orders *os.File) (why string, command int) {
	in := bufio.NewReaderSize(orders, 256)
	fd := []unix.PollFd{{Fd: int32(orders.Fd()), Events: unix.POLLIN}} // Fd makes it a file that blocks
	var until *moment
	for {
		wait := -1
		if until != nil {
			left := until.sub(now())
			// What has come is read before time is judged: we may have been stopped, and orders wait.
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
				return "it was told nonsense", command
			}
		case until != nil && until.sub(now()) <= 0:
			return "the lock's validity is over and redlock does not see to it", command
		}
	}
}

func parseUntil(text string) (*moment, error) {
	m, err := parseMoment(text)
	return &m, err
}

// ownPath leads to this program also where its file was replaced since.
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
