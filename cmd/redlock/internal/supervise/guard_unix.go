//go:build unix

package supervise

import (
	"bufio"
	"encoding/json"
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

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
)

// A Guard is the guard of one run, as its wrapper sees it.
type Guard struct {
	group   int // the process group, which is the guard's pid
	cmd     *exec.Cmd
	orders  *os.File
	reports chan report // closed when the guard has ended. It stays a zombie until End, so that its group's number is not reused.
	before  []int       // the children that this process had before

	// interactive is whether standard input and output are terminals: then the
	// command begins in the foreground.
	interactive bool
}

const (
	guardStart  = 10 * time.Second // bounds how long a guard may take to be ready
	mostReports = 16               // that wait for the wrapper; then the guard waits
)

// StartGuard starts a guard, whose command will have these standard streams, and
// waits until it is ready. The caller ends it. The guard says on stderr why it
// kills a command.
func StartGuard(stdin, stdout, stderr *os.File) (*Guard, error) {
	orders, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orders.Close()
	cmd := exec.Command(ownPath(), guardArgument)
	cmd.Args[0] = "redlock"
	cmd.Stdin, cmd.Stderr = orders, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// All else that is open here without being closed on execution is left open
	// for the command, as make(1) and flock(1) users expect. So the streams take
	// numbers that are free.
	for _, file := range []*os.File{stdin, stdout} {
		number, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD, firstFree)
		if err != nil {
			write.Close()
			return nil, err
		}
		defer unix.Close(number)
		cmd.Args = append(cmd.Args, strconv.Itoa(number))
	}
	if signal.Ignored(syscall.SIGTTOU) { // since an earlier Run: signal.Reset would not change that
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU)
	}
	g := &Guard{
		cmd: cmd, orders: write, reports: make(chan report, mostReports), before: children(),
		interactive: isTerminal(stdin) && isTerminal(stdout),
	}
	reports, err := cmd.StdoutPipe()
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
	g.group = cmd.Process.Pid
	err = awaitReady(reports)
	go g.listen(reports)
	if err != nil {
		g.End()
		return nil, err
	}
	return g, nil
}

// firstFree is the first number of a file that is no standard stream.
const firstFree = 3

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

// listen receives reports until the guard has ended.
func (g *Guard) listen(lines io.Reader) {
	defer close(g.reports)
	for in := bufio.NewScanner(lines); in.Scan(); {
		word, number, _ := strings.Cut(in.Text(), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return // impossible: nothing else writes there
		}
		g.reports <- report{word, n}
	}
}

// tell sends the moment until which the group may live, and reports whether it
// was sent. It hardly waits: a line is written to a pipe as a whole or not at
// all, and a guard that is stopped does not read.
func (g *Guard) tell(until clock.Moment) bool { return g.order(until.String()+"\n", tellTakes) }

// start has the guard start a command, and returns its pid.
func (g *Guard) start(path string, args, env []string) (pid int, err error) {
	text, _ := json.Marshal(order{[]byte(path), inBytes(args), inBytes(env)}) // nothing in it can fail
	if len(text) > mostOrder {
		return 0, &StartError{&os.PathError{Op: "fork/exec", Path: path, Err: syscall.E2BIG}}
	}
	if !g.order(fmt.Sprintf("%s%d\n%s", startOrder, len(text), text), guardStart) {
		return 0, errGuardDied
	}
	switch answer, alive := <-g.reports; {
	case !alive:
		return 0, errGuardDied
	case answer.word == wordFailed:
		return 0, &StartError{&os.PathError{Op: "fork/exec", Path: path, Err: syscall.Errno(answer.number)}}
	default:
		return answer.number, nil
	}
}

var errGuardDied = errors.New("the guard has died: nothing was started")

// order writes to the guard, and reports whether all was written in time.
func (g *Guard) order(text string, within time.Duration) bool {
	_ = g.orders.SetWriteDeadline(time.Now().Add(within))
	_, err := g.orders.WriteString(text)
	return err == nil
}

// tellTakes is far longer than a write takes to a pipe with room, even on a
// busy machine.
const tellTakes = 20 * time.Millisecond

// End ends the guard and nothing else of the group. It may be called twice.
func (g *Guard) End() {
	_ = g.cmd.Process.Kill()
	for range g.reports { // until it has ended
	}
	_ = g.orders.Close()
	_ = g.cmd.Wait()
	own.forget(g.group)
}

func inBytes(texts []string) (out [][]byte) {
	for _, text := range texts {
		out = append(out, []byte(text))
	}
	return out
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
