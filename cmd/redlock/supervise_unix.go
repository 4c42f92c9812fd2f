//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redmux/redmux/redlock"
)

// lookMost is the longest time between two looks at the validity: timers stand still while a machine sleeps (R13).
const lookMost = 250 * time.Millisecond

// forwarded are the signals that the command's group gets as we get them; main has asked for INT, TERM and HUP already. TSTP is
// not among them: who asks package os/signal for it once is not stopped by it any more, see suspend.
var forwarded = []os.Signal{
	syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
}

// A supervision is a command under a lock. It belongs to the goroutine that runs it.
type supervision struct {
	process *process
	hold    *redlock.Hold
	limits  limits
	guard   *guard
	child   *child
	tty     *terminal                   // nil where there is none
	hunt    func(id string) (gone bool) // killStrays; changed only by tests

	told   time.Time // the end of validity that the guard knows
	named  bool      // the guard knows the command
	termed time.Time // when TERM was sent, or KILL without it; zero if neither was
	killed bool
	end    ending
}

// supervise runs the command until it has ended. The error is that it could not be started.
func (c *runCommand) supervise(p *process, hold *redlock.Hold, path string, g *guard) (ending, error) {
	stdio, err := p.files()
	if err != nil {
		return ending{}, err
	}
	s := &supervision{process: p, hold: hold, limits: newLimits(c.KillAfter, c.TTL), guard: g, tty: openTerminal(g.group), hunt: killStrays}
	defer s.tty.close()
	listen(p.signals, forwarded...)
	if err := s.mayStart(); err != nil {
		return ending{}, err
	}
	env := with(os.Environ(), "REDLOCK_RESOURCE", c.Resource)
	env = with(env, "REDLOCK_UNTIL", hold.Until().UTC().Format(time.RFC3339Nano))
	env = with(env, markVariable, markUnder(os.Getenv(markVariable), g.id))
	s.child, err = startChild(path, c.Command, env, stdio, g.group, s.tty.forStart(stdio))
	// We are in the background of a terminal now, and must not be stopped by what we say there, or by taking it back. The command was
	// started before, so that it does not inherit this.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	defer s.tty.takeBack()
	if err != nil {
		return ending{}, startError(err)
	}
	s.run(c.MaxHold)
	return s.end, nil
}

// mayStart has the guard count from before the command's first instruction, and refuses a lock that is lost already: we may have
// been stopped since it was granted.
func (s *supervision) mayStart() error {
	for {
		if left := s.left(); left <= s.limits.margin || s.hold.Err() != nil {
			return &exitError{exitLost, errors.New("the lock was lost before the command was started")}
		}
		if !s.told.IsZero() {
			return nil
		}
		select {
		case <-s.guard.died:
			return errors.New("the guard has died: nothing was started") // the wait for the lock may have been long
		case <-time.After(time.Millisecond):
		}
	}
}

// with sets a variable of an environment. A name that is there twice would show most programs the first, which is another's
// where one lock is taken under another. It comes first: of a huge environment only the beginning is searched for a mark.
func with(env []string, name, value string) []string {
	return slices.Insert(without(env, name), 0, name+"="+value)
}

// without changes the environment that it is given.
func without(env []string, name string) []string {
	return slices.DeleteFunc(env, func(setting string) bool { return strings.HasPrefix(setting, name+"=") })
}

// startError gives an error of the start the code that shells give it.
func startError(err error) error {
	if errors.Is(err, syscall.ENOENT) {
		return &exitError{exitNotFound, err}
	}
	return &exitError{exitNotExecutable, err}
}

// run looks after the command until it has ended.
func (s *supervision) run(maxHold time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var tooLong <-chan time.Time
	if maxHold > 0 {
		bound := time.NewTimer(maxHold)
		defer bound.Stop()
		tooLong = bound.C
	}
	over, unguarded := s.hold.Context().Done(), s.guard.died
	for {
		timer.Reset(min(s.look(), lookMost))
		select {
		case status, more := <-s.child.states:
			if !more {
				s.buryGroup()
				return
			}
			s.changed(status)
		case sig := <-s.process.signals:
			s.forward(sig)
		case <-over:
			over = nil
			if !s.end.lost {
				s.end.lost = true
				s.stop(fmt.Sprintf("%v; stopping the command", s.hold.Err()))
			}
		case <-tooLong:
			s.stop("--max-hold was reached; stopping the command")
			s.end.tooLong = true
		case <-unguarded:
			unguarded = nil
			if s.killed || s.left() <= s.limits.margin {
				break // it died in the line of duty
			}
			s.say("the guard has died: if redlock is killed too, what the command has started may go on unlocked")
		case <-timer.C:
		}
	}
}

// left is for how long the lock is still certain to be ours, which the guard is told after each renewal. After a definite loss
// it goes on to count the validity that was granted, within which the command is to be dead. Each call reads the clocks (R15).
func (s *supervision) left() time.Duration {
	var lost *redlock.LostError
	if errors.As(s.hold.Err(), &lost) && !lost.Refused {
		return 0
	}
	lock, at := s.hold.Current(), now() // now before Validity: if we are stopped between them, the guard is told too early a time
	left := lock.Validity()
	if lock.Until().After(s.told) && s.guard.tell(at.add(left-s.limits.margin/2)) { // the guard comes after us
		s.told = lock.Until() // else it is told with the next look
	}
	if s.child != nil && !s.named {
		s.named = s.guard.tellCommand(s.child.pid)
	}
	return left
}

// look does what is due, and says when to look again.
func (s *supervision) look() (next time.Duration) {
	left, termed := s.left(), time.Duration(-1)
	if !s.termed.IsZero() {
		termed = time.Since(s.termed)
	}
	do, next := s.limits.judge(left, termed)
	switch do {
	case toTerm:
		s.end.lost = true
		s.stop(notRenewed(left) + "; stopping the command")
		return min(next, s.limits.killAfter)
	case toKill:
		why := ""
		if s.termed.IsZero() { // there was no time to ask
			s.end.lost = true
			why = notRenewed(left) + "; the command was killed"
		}
		s.kill(why)
		return lookMost
	}
	return next
}

func notRenewed(left time.Duration) string {
	return fmt.Sprintf("the lock could not be renewed, and is certain to be ours for %v only", max(0, left.Round(time.Millisecond)))
}

// stop asks the command to end, also one that is stopped, unless it is too late to ask: who was stopped past the end must not go
// on for a moment.
func (s *supervision) stop(why string) {
	if do, _ := s.limits.judge(s.left(), -1); do == toKill {
		s.kill(why)
		return
	}
	if s.termed.IsZero() {
		s.termed = time.Now()
		s.signal(syscall.SIGTERM)
		s.signal(syscall.SIGCONT)
		_, untilKill := s.limits.judge(s.left(), 0)
		askStrays(s.guard.id, []int{s.guard.group, s.child.pid}, untilKill, syscall.SIGTERM, syscall.SIGCONT)
	}
	s.say(why)
}

// kill ends the command and all that is left of it, once; more would not help.
func (s *supervision) kill(why string) {
	if s.killed {
		return
	}
	s.killed = true
	s.killAll()
	if s.termed.IsZero() {
		s.termed = time.Now()
	}
	if why != "" {
		s.say(why)
	}
}

// buryGroup ends what a command that was stopped has left behind: it may work on unlocked.
func (s *supervision) buryGroup() {
	s.end.code = s.child.code
	if s.left() <= s.limits.margin && !s.end.lost { // the guard may have come before us
		s.end.lost = true
		s.say("the lock was over, or nearly, when the command ended")
	}
	if s.end.lost || !s.termed.IsZero() {
		s.buryAll()
	}
}

// mostHunts bounds the hunts for what a command has left, each of which takes a second at most.
const mostHunts = 10

// buryAll kills until no process is left. On a busy machine processes may start others faster than one hunt finds them; while the
// validity lasts there is time for another, and to return would tell that they are dead.
func (s *supervision) buryAll() {
	for range mostHunts {
		if s.killAll() {
			return
		}
		if s.left() <= s.limits.margin {
			break
		}
	}
	s.say("what the command has started may go on: it starts processes faster than these are found")
}

// killAll kills the group first: that is done at once, and then there are fewer that could start something. It reports whether
// none is left.
func (s *supervision) killAll() (gone bool) {
	s.signal(syscall.SIGKILL)
	return s.hunt(s.guard.id)
}

// forward passes a signal on to the command.
func (s *supervision) forward(sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	if number == syscall.SIGCONT {
		s.resume()
		return
	}
	s.signal(number)
}

// resume is what follows a stop of ours: who was stopped for too long must not see the command go on, and not even begin to.
func (s *supervision) resume() {
	if s.look(); s.killed {
		return
	}
	s.tty.giveIfOurs()
	s.signal(syscall.SIGCONT)
}

// signal sends a signal to all of the command's group. There may be nobody left in it but the guard, who ignores what can be
// ignored. A group of the command's number there is only if it has made one, as timeout(1) does, and left ours.
func (s *supervision) signal(number syscall.Signal) {
	_ = syscall.Kill(-s.guard.group, number)
	_ = syscall.Kill(-s.child.pid, number)
}

// changed sees to a command that the terminal stopped. One that is stopped otherwise, or without a terminal, is stopped; its
// lock is renewed meanwhile.
func (s *supervision) changed(status syscall.WaitStatus) {
	if s.tty == nil {
		return
	}
	switch status.StopSignal() {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		if s.tty.giveIfOurs() { // it wants the terminal, and we have it
			s.signal(syscall.SIGCONT)
			return
		}
	case syscall.SIGTSTP:
	default:
		return
	}
	s.tty.takeBack()
	s.suspend()
	s.resume()
}

// suspend stops us with the command, so that the shell that waits for us goes on; it returns when we are continued. In a
// process group that no shell looks after the signal has no effect, and there is nothing to be done but to go on.
func (s *supervision) suspend() {
	_ = syscall.Kill(0, syscall.SIGTSTP)
	// Which of our threads takes the signal, and when, is not known. We are surely stopped within this time.
	time.Sleep(suspendTakes)
}

const suspendTakes = 100 * time.Millisecond

func (s *supervision) say(text string) {
	sayInPassing(s.process.stderr, "redlock: "+strings.TrimPrefix(text, "redlock: ")) // the library's and ours are one name
}

// files are the standard streams as the command inherits them, so that not a byte passes through us.
func (p *process) files() ([]*os.File, error) {
	var all []*os.File
	for _, stream := range []any{p.stdin, p.stdout, p.stderr} {
		file, ok := stream.(*os.File)
		if !ok {
			return nil, errors.New("a command needs real files as standard streams")
		}
		all = append(all, file)
	}
	return all, nil
}
