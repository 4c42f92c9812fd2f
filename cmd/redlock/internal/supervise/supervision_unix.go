//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
	"github.com/redmux/redmux/redlock"
)

// lookMost is the longest time between two looks at the validity: timers stand
// still while a machine sleeps (R13).
const lookMost = 250 * time.Millisecond

// forwarded are the signals that Run asks for. The caller has asked for INT,
// TERM and HUP. TSTP is missing: once a process has asked package os/signal for
// it, TSTP no longer stops that process (see suspend).
var forwarded = []os.Signal{
	syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
}

// A supervision is a command under a lock, as its wrapper sees it. It belongs
// to the goroutine that runs it.
type supervision struct {
	hold    *redlock.Hold
	limits  limits
	guard   *Guard
	child   *child
	signals chan os.Signal
	stderr  io.Writer
	tty     *terminal                   // nil without a controlling terminal
	hunt    func(id string) (gone bool) // killStrays, except in tests

	told   time.Time // the end of validity that the guard knows
	named  bool      // whether the guard knows the command's pid
	termed time.Time // when TERM was sent, or KILL without it; zero if neither was
	killed bool
	end    Ending
}

// Run runs a command in the guard's group until it has ended. It returns an
// error if the command was not started: ErrLost, a *StartError, or another one
// if the guard has died.
func (g *Guard) Run(c *Command) (Ending, error) {
	s := &supervision{
		hold: c.Hold, limits: newLimits(c.KillAfter, c.TTL), guard: g, signals: c.Signals, stderr: c.Stderr,
		tty: openTerminal(g.group), hunt: killStrays,
	}
	defer s.tty.close()
	Listen(c.Signals, forwarded...)
	if err := s.mayStart(); err != nil {
		return Ending{}, err
	}
	if signal.Ignored(syscall.SIGTTOU) { // since an earlier Run: signal.Reset would not change that
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU)
	}
	err := s.start(c)
	// The wrapper is now in the background of its terminal, and neither writing
	// to it nor taking it back may stop the wrapper. The command was started
	// before, so it does not inherit the ignored signal.
	signal.Ignore(syscall.SIGTTOU)
	defer s.tty.takeBack()
	if err != nil {
		return Ending{}, &StartError{err}
	}
	s.run(c.MaxHold)
	return s.end, nil
}

// mayStart returns nil once the guard knows the end of the validity, so that it
// guards the command from its first instruction. It returns ErrLost if the lock
// is lost already: the wrapper may have been stopped since the grant.
func (s *supervision) mayStart() error {
	for {
		if left := s.left(); left <= s.limits.margin || s.hold.Err() != nil {
			return ErrLost
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

func (s *supervision) start(c *Command) (err error) {
	env := with(slices.Clone(c.Env), "REDLOCK_RESOURCE", c.Resource)
	env = with(env, "REDLOCK_UNTIL", c.Hold.Until().UTC().Format(time.RFC3339Nano))
	env = without(env, "REDLOCK_FENCE") // of a run around this one
	if fence := c.Hold.Current().Fence(); fence != 0 {
		env = with(env, "REDLOCK_FENCE", strconv.FormatUint(fence, 10))
	}
	env = with(env, MarkVariable, markUnder(os.Getenv(MarkVariable), s.guard.id))
	stdio := []*os.File{c.Stdin, c.Stdout, c.Stderr}
	s.child, err = startChild(c.Path, c.Args, env, stdio, s.guard.group, s.tty.forStart(stdio))
	return err
}

// with sets a variable of an environment. It removes the old setting, since most
// programs would use the first of two. The new one comes first: only the
// beginning of a huge environment is searched for a mark.
func with(env []string, name, value string) []string {
	return slices.Insert(without(env, name), 0, name+"="+value)
}

// without removes a variable. It changes env.
func without(env []string, name string) []string {
	return slices.DeleteFunc(env, func(setting string) bool { return strings.HasPrefix(setting, name+"=") })
}

// run supervises the command until it has ended.
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
		case sig := <-s.signals:
			s.forward(sig)
		case <-over:
			over = nil
			if !s.end.Lost {
				s.end.Lost = true
				s.stop(fmt.Sprintf("%v; stopping the command", s.hold.Err()))
			}
		case <-tooLong:
			s.stop("--max-hold was reached; stopping the command")
			s.end.TooLong = true
		case <-unguarded:
			unguarded = nil
			if s.killed || s.left() <= s.limits.margin {
				break // it has done its duty
			}
			s.say("the guard has died: if redlock is killed too, what the command has started may go on unlocked")
		case <-timer.C:
		}
	}
}

// left returns how long the lock is still certain to be ours, and tells the
// guard after each renewal. After a definite loss, it goes on to count the
// validity that was granted, within which the command must die. Each call reads
// the clocks (R15).
func (s *supervision) left() time.Duration {
	var lost *redlock.LostError
	if errors.As(s.hold.Err(), &lost) && !lost.Refused {
		return 0
	}
	lock, at := s.hold.Current(), clock.Now() // before Validity: if the wrapper is stopped between them, the guard's time is too early
	left := lock.Validity()
	if lock.Until().After(s.told) && s.guard.tell(at.Add(left-s.limits.margin/2)) { // the guard acts after the wrapper
		s.told = lock.Until() // otherwise the next look tells it
	}
	if s.child != nil && !s.named {
		s.named = s.guard.tellCommand(s.child.pid)
	}
	return left
}

// look does what is due, and returns when to look again.
func (s *supervision) look() (next time.Duration) {
	left, termed := s.left(), time.Duration(-1)
	if !s.termed.IsZero() {
		termed = time.Since(s.termed)
	}
	do, next := s.limits.judge(left, termed)
	switch do {
	case toTerm:
		s.end.Lost = true
		s.stop(notRenewed(left) + "; stopping the command")
		return min(next, s.limits.killAfter)
	case toKill:
		why := ""
		if s.termed.IsZero() { // there was no time for TERM
			s.end.Lost = true
			why = notRenewed(left) + "; the command was killed"
		}
		s.kill(why)
		return lookMost
	}
	return next
}

func notRenewed(left time.Duration) string {
	return fmt.Sprintf("the lock could not be renewed and is only valid for another %v", max(0, left.Round(time.Millisecond)))
}

// stop asks the command to end, even if it is stopped. If it is too late to
// ask, stop kills it instead: it must not go on for a moment.
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

// kill kills the command and all that is left of it. Only the first call does
// anything.
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

// buryGroup kills what a command that was being stopped has left: it may work
// on unlocked.
func (s *supervision) buryGroup() {
	s.end.Code = s.child.code
	if s.left() <= s.limits.margin && !s.end.Lost { // the guard may have acted first
		s.end.Lost = true
		s.say("the lock was over, or nearly, when the command ended")
	}
	if s.end.Lost || !s.termed.IsZero() {
		s.buryAll()
	}
}

// mostHunts bounds the hunts for what a command has left. Each takes a second
// at most.
const mostHunts = 10

// buryAll kills until no process is left. On a busy machine, processes may
// start others faster than one hunt finds them. It also goes on when the
// validity is over: what lives on then works without the lock, and returning
// would claim that it is dead.
func (s *supervision) buryAll() {
	for range mostHunts {
		if s.killAll() {
			return
		}
	}
	s.say("what the command has started may go on: it starts processes faster than redlock finds them")
}

// killAll kills the group first: that takes no time, and leaves fewer processes
// that could start others. It reports whether none is left.
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

// resume continues the command after the wrapper was continued, unless the
// validity is over.
func (s *supervision) resume() {
	if s.look(); s.killed {
		return
	}
	s.tty.giveIfOurs()
	s.signal(syscall.SIGCONT)
}

// signal sends a signal to the guard's group; the guard ignores what it can. A
// group with the command's number exists only if the command made one and left
// the guard's, as timeout(1) does.
func (s *supervision) signal(number syscall.Signal) {
	_ = syscall.Kill(-s.guard.group, number)
	_ = syscall.Kill(-s.child.pid, number)
}

// changed handles a command that the terminal has stopped. A command that is
// stopped otherwise, or without a terminal, stays stopped, and its lock is
// renewed meanwhile.
func (s *supervision) changed(status syscall.WaitStatus) {
	if s.tty == nil {
		return
	}
	switch status.StopSignal() {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		if s.tty.giveIfOurs() { // it needs the terminal, and the wrapper has it
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

// suspend stops the wrapper with the command, so that the shell goes on. It
// returns when the wrapper is continued. In a process group that no shell
// controls, the signal has no effect and the wrapper just goes on.
func (s *supervision) suspend() {
	_ = syscall.Kill(0, syscall.SIGTSTP)
	// It is unknown which thread takes the signal, and when. The wrapper is
	// surely stopped within this time.
	time.Sleep(suspendTakes)
}

const suspendTakes = 100 * time.Millisecond

func (s *supervision) say(text string) {
	sayInPassing(s.stderr, "redlock: "+strings.TrimPrefix(text, "redlock: ")) // errors of the library have the same prefix
}
