package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/supervise"
	"github.com/redmux/redmux/redlock"
)

// hooks has the flags of commands that run at the ends of a term. The first runs
// before the command, under the lock and its guard. The second runs after it,
// whatever ended it, with the lock if that is still ours.
type hooks struct {
	OnElected   string        `placeholder:"COMMAND" help:"Command of the shell to run when elected, before the command is started. If it fails, this term is over."`
	OnLost      string        `placeholder:"COMMAND" help:"Command of the shell to run after each term, when its command has ended."`
	HookTimeout time.Duration `default:"10s" placeholder:"DURATION" help:"How long each of the two may take (${default}); then it is stopped, the second by KILL, and has failed."`
}

// outcomeVariable tells the hook after a term how that ended: with one of the
// words that an outcome has.
const outcomeVariable = "REDLOCK_OUTCOME"

// elected runs the hook before the command. It returns an error if the command
// must not be started.
func (t *electedTerm) elected(hold *redlock.Hold, env []string, signals chan os.Signal) error {
	if t.OnElected == "" {
		return nil
	}
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer nothing.Close()
	hook := *t.process
	hook.stdin = nothing
	guard, err := startGuard(&hook)
	if err != nil {
		return err
	}
	defer guard.End()
	end, err := superviseCommand(t.process, guard, &supervise.Command{
		Path: supervise.Shell, Args: []string{supervise.Shell, supervise.ShellFlag, t.OnElected}, Env: env, Hold: hold, Resource: t.Name, TTL: t.TTL,
		KillAfter: t.KillAfter, MaxHold: t.HookTimeout, Bound: "--hook-timeout", Signals: signals,
	})
	switch {
	case err != nil:
		return err
	case end.Lost:
		return redlock.ErrLost // it was reported when it happened
	case end.TooLong:
		return errors.New("--on-elected took too long")
	case end.Code != 0:
		return fmt.Errorf("--on-elected: exit code %d", end.Code)
	}
	return nil
}

// left runs the hook after a term. Its failure changes nothing but what is
// printed: the term is over.
func (t *electedTerm) left(term uint64, env []string, word string) {
	if t.OnLost == "" {
		return
	}
	env = supervise.With(env, "REDLOCK_RESOURCE", t.Name)
	env = supervise.With(env, "REDLOCK_FENCE", strconv.FormatUint(term, 10))
	env = supervise.With(env, outcomeVariable, word)
	stdio, _ := streams(t.process)
	switch code, err := supervise.RunHook(t.OnLost, env, stdio[1], stdio[2], t.HookTimeout); {
	case errors.Is(err, context.DeadlineExceeded):
		t.process.say("--on-lost was killed after %v", t.HookTimeout)
	case err != nil:
		t.process.say("--on-lost: %v", err)
	case code != 0:
		t.process.say("--on-lost: exit code %d", code)
	}
}
