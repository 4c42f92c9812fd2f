package supervise

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/redlock"
)

// A Command is a command to run under a lock.
type Command struct {
	Path string   // the program's file
	Args []string // the arguments, beginning with the program's name

	// Stderr is where the wrapper says why it stops the command.
	Stderr io.Writer

	// Env is the environment of the command, to which Run adds the variables
	// of the lock.
	Env []string

	// Hold is the lock, and Resource and TTL are what it was taken with. The
	// caller releases it.
	Hold     *redlock.Hold
	Resource string
	TTL      time.Duration

	KillAfter time.Duration // from TERM to KILL, at most a third of TTL
	MaxHold   time.Duration // stops a command that takes longer. If zero, none is stopped.
	Bound     string        // what the user calls MaxHold, such as the flag that sets it

	// Stopping is called once, by the goroutine of Run, before the command gets
	// TERM, or KILL without it, and when the guard has died. It is not called for
	// a command that ends by itself, nor for a signal that is forwarded. The
	// command is not stopped before it returns. If nil, nothing is called.
	Stopping func()

	// Signals receives the signals to forward. The caller has asked for INT,
	// TERM and HUP; Run asks for the others. The channel needs a buffer.
	Signals chan os.Signal
}

// An Ending is how a command came to its end.
type Ending struct {
	Code    int  // as a shell has it: the exit code, or 128 + N if signal N ended it
	Lost    bool // the lock was lost, or was about to be. The user was told.
	TooLong bool // MaxHold was reached
}

// ErrLost is returned by Run if the lock was lost before the command was
// started.
var ErrLost = errors.New("the lock was lost before the command was started")

// A StartError is returned by Run if the command could not be started.
type StartError struct{ Err error }

// Error returns the cause.
func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Shell and ShellFlag run a line of the shell.
const Shell, ShellFlag = "/bin/sh", "-c"

// With sets a variable of an environment, which it changes. It removes the old
// setting, since most programs would use the first of two.
func With(env []string, name, value string) []string {
	env = slices.DeleteFunc(env, func(setting string) bool { return strings.HasPrefix(setting, name+"=") })
	return append(env, name+"="+value)
}

// Listen has signals sent to the channel, except those that this process was
// started to ignore, as under nohup or in the background of a script. They stay
// ignored, and a command inherits that.
func Listen(signals chan os.Signal, wanted ...os.Signal) {
	for _, s := range wanted {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
}
