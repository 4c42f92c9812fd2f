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
	pid     int // of the command
	signals chan os.Signal
	stderr  io.Writer
	tty     *terminal                      // nil without a controlling terminal
	hunt    func(except []int) (gone bool) // killOrphans, except in tests

	stopping func() // called before termed is set

	told   time.Time // the end of validity that the guard knows
	termed time.Time // when TERM was sent, or KILL without it; zero if neither was
	killed bool
	end    Ending
}

// Run runs a command in the guard's group until it has ended. It returns an
// error if the command was not started: ErrLost, a *StartError, or another one
// if the guard has died. It is called once for a guard.
func (g *Guard) Run(c *Command) (Ending, error) {
	s := &supervision{
		hold: c.Hold, limits: newLimits(c.KillAfter, c.TTL), guard: g, signals: c.Signals, stderr: c.Stderr,
		tty: openTerminal(g.group), hunt: killOrphans, stopping: c.Stopping,
	}
	defer s.tty.close()
	Listen(c.Signals, forwarded...)
	if err := s.mayStart(); err != nil {
		return Ending{}, err
	}
	// From now on the wrapper may be in the background of its terminal, and neither
	// writing to it nor taking it back may stop the wrapper. The guard was started
	// before, so the command does not inherit the ignored signal.
	signal.Ignore(syscall.SIGTTOU)
	defer s.tty.takeBack()
	if g.interactive {
		s.tty.giveIfOurs()
	}
	if err := s.start(c); err != nil {
		return Ending{}, err
	}
	s.run(c.MaxHold, c.Bound)
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
		case <-s.guard.reports: // it has nothing to report yet
			return errGuardDied // the wait for the lock may have been long
		case <-time.After(time.Millisecond):
		}
	}
}

func (s *supervision) start(c *Command) (err error) {
	env := With(slices.Clone(c.Env), "REDLOCK_RESOURCE", c.Resource)
	env = With(env, "REDLOCK_UNTIL", c.Hold.Until().UTC().Format(time.RFC3339Nano))
	if fence := c.Hold.Current().Fence(); fence != 0 {
		env = With(env, "REDLOCK_FENCE", strconv.FormatUint(fence, 10))
	}
	s.pid, err = s.guard.start(c.Path, c.Args, env)
	return err
}

// run supervises the command until it has ended.
func (s *supervision) run(maxHold time.Duration, bound string) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var tooLong <-chan time.Time
	if maxHold > 0 {
		most := time.NewTimer(maxHold)
		defer most.Stop()
		tooLong = most.C
	}
	over := s.hold.Context().Done()
	for {
		timer.Reset(min(s.look(), lookMost))
		select {
		case report, alive := <-s.guard.reports:
			switch {
			case !alive:
				s.unguarded()
				return
			case report.word == wordEnded:
				s.end.Code = report.number
				s.buryGroup()
				return
			case report.word == wordStopped:
				s.changed(syscall.Signal(report.number))
			}
		case sig := <-s.signals:
			s.forward(sig)
		case <-over:
			over = nil
			if !s.end.Lost {
				s.end.Lost = true
				s.stop(fmt.Sprintf("%v; stopping the command", s.hold.Err()))
			}
		case <-tooLong:
			s.stop(bound + " was reached; stopping the command")
			s.end.TooLong = true
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
	if errors.As(s.hold.Err(), &lost) && !lost.NotHeld {
		return 0
	}
	lock, at := s.hold.Current(), clock.Now() // before Validity: if the wrapper is stopped between them, the guard's time is too early
	left := lock.Validity()
	if lock.Until().After(s.told) && s.guard.tell(at.Add(left-s.limits.margin/2)) { // the guard acts after the wrapper
		s.told = lock.Until() // otherwise the next look tells it
	}
	return left
}

// look does what is due, and returns when to look again. A guard that was stopped
// goes on, even if the command does not.
func (s *supervision) look() (next time.Duration) {
	_ = syscall.Kill(s.guard.group, syscall.SIGCONT)
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
		s.stops()
		s.signal(syscall.SIGTERM)
		s.signal(syscall.SIGCONT)
		_, untilKill := s.limits.judge(s.left(), 0)
		askStrays(s.guard.group, []int{s.guard.group, s.pid}, untilKill, syscall.SIGTERM, syscall.SIGCONT)
	}
	s.say(why)
}

// stops notes when the command was first asked to end, or killed.
func (s *supervision) stops() {
	if !s.termed.IsZero() {
		return
	}
	if s.stopping != nil {
		s.stopping()
	}
	s.termed = time.Now()
}

// kill kills the group first, with the guard: that takes no time, and leaves
// fewer processes that could start others. The rest has this process for a parent
// then, and is killed next. Only the first call does anything.
func (s *supervision) kill(why string) {
	if s.killed {
		return
	}
	s.killed = true
	s.stops()
	s.signal(syscall.SIGKILL)
	s.hunt(s.guard.before) // as long as the guard is dying, it hides the rest
	if why != "" {
		s.say(why)
	}
}

// unguarded ends the run of a guard that has ended before its command: it was
// killed, by us or by another process. The command is dead then, or about to die,
// since it must not go on unguarded.
func (s *supervision) unguarded() {
	s.end.Code = codeSignal + int(syscall.SIGKILL)
	if !s.killed && s.left() > s.limits.margin { // otherwise the guard has done its duty
		s.stops()
		s.say("the guard has died, and the command with it")
	}
	s.buryGroup()
}

// buryGroup kills what a command that was being stopped has left: it may work
// on unlocked.
func (s *supervision) buryGroup() {
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
	s.signal(syscall.SIGKILL)
	s.guard.End() // from here on its number is not used
	// A command that may not be killed, since it has become another user, is waited
	// for.
	for n := 0; n < mostHunts || adopted(s.pid); n++ {
		if s.hunt(s.guard.before) {
			return
		}
	}
	s.say("what the command has started may go on: it belongs to another user, or starts processes faster than redlock finds them")
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
	_ = syscall.Kill(-s.pid, number)
}

// changed handles a command that the terminal has stopped. A command that is
// stopped otherwise, or without a terminal, stays stopped, and its lock is
// renewed meanwhile.
func (s *supervision) changed(by syscall.Signal) {
	if s.tty == nil {
		return
	}
	switch by {
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
