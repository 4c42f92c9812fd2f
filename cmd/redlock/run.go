package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/redmux/redmux/cmd/redlock/internal/supervise"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
)

// runCommand runs a command under a lock.
type runCommand struct {
	waiting
	lifetime
	fencing
	form
	passing
	labelling
	ConflictExitCode int           `short:"E" name:"conflict-exit-code" default:"75" placeholder:"CODE" help:"Exit code if another client holds the lock (${default})."`
	MinHold          time.Duration `default:"0s" placeholder:"DURATION" help:"Keep the lock for at least this long, even if the command ends sooner: for a job that several machines start at once. At most the TTL."`
	MaxHold          time.Duration `default:"0s" placeholder:"DURATION" help:"Stop a command that takes longer: exit code 124."`
	KillAfter        time.Duration `default:"5s" placeholder:"DURATION" help:"Time between TERM and KILL for a command that must stop (${default}); at most a third of the TTL, and less if the validity of the lock ends sooner."`
	Heal             bool          `help:"Set the key again on masters that restarted empty, once they count."`
	Quiet            bool          `short:"q" help:"Print nothing if another client holds the lock."`
	Also             []string      `sep:"none" placeholder:"RESOURCE" help:"Lock this resource too, all of them or none; may be repeated, for at most 64 resources. Not with --min-hold and --heal."`
	Outcome          string        `placeholder:"FILE" help:"Write the outcome to this file, as one line of JSON. The file is emptied first."`

	Resource string   `arg:"" help:"What is locked: 1 to 1,024 bytes."`
	Command  []string `arg:"" passthrough:"" help:"The command and its arguments, after --."`
}

// Help is what --help shows below the first line.
func (*runCommand) Help() string {
	return `The lock is renewed until the command ends, and then released. The command has a process group of its own, to which redlock forwards INT, TERM, HUP, QUIT, USR1, USR2, WINCH and CONT. Standard input, output and error are the command's own. Its environment has REDLOCK_RESOURCE, the resource (with --also, all of them, separated by a comma and a blank); REDLOCK_UNTIL, when the lock would end if it were not renewed (RFC 3339, not updated by renewals); with --fenced, REDLOCK_FENCE, a number that is higher than that of any lock before (with --also, on any of the resources); and REDLOCK_HELD, fingerprints of the locks, by which a redlock command within sees that it would wait for itself, and refuses to. With --shared within --shared there is nothing to wait for but a writer, which waits for the outer lock: then it refuses too.

Passwords are taken out of that environment: the variable of --password-env, and those in REDLOCK_NODES and REDLOCK_DURABLE, whose addresses stay. So redlock commands within work where the masters ask for no password. Where they do, they ask each client anew, and there is no way without it: give --pass-credentials if the command may know it.

When the lock is lost, or cannot be renewed in time, the whole group gets TERM, and then KILL, early enough to be dead before the validity ends. If redlock itself is stopped or killed (even with KILL), a second process, the guard, kills the group: at once if redlock is gone, otherwise at the end of the validity. A command that becomes the leader of another group or session, as timeout and setsid do, is treated in the same way. On Linux, so is everything else that has left the group, even a daemon: it stays a descendant of the guard. It gets TERM and KILL, but not the forwarded signals.

Not killed are processes that run as another user (run redlock under sudo, not sudo under redlock), and work that a service does on request, as with docker, at and systemd-run: let a service start what must live on when the lock is lost. On other systems than Linux, and without /proc, nothing else that leaves the group is found. What a command leaves running in the background when it ends is left alone, unless the lock was lost or --max-hold was reached. If the guard is killed, the command is killed with it.

As process 1 of a container, redlock takes in the ends of orphans, so no zombies gather.

On a terminal (standard input and output), the command is in the foreground, so it can read, and Ctrl-C reaches it. Ctrl-Z stops redlock with it: then the lock is not renewed, and a command that is continued after the end of the validity is killed.

Exit code: that of the command, or 128 + N if signal N ended it; 70 the lock was lost, however the command ended; 75 held by another client, 69 no quorum, 124 --max-hold was reached, 64 usage, 126 the command cannot be executed, 127 it was not found.

The outcome as JSON goes to a file, since standard output and standard error are the command's own. The file may be /dev/stderr or, for example, /dev/fd/3. The outcome is done, whatever the command's exit code, or one of held, no_quorum, expired, lost, max_hold, interrupted (during the wait), not_executable, not_found, invalid (exit code 64) and failed. The other fields are resource (and resources, a list, with --also), exit_code (of redlock), command_exit_code, waited_ms and ran_ms, and holder and holder_ttl_ms if another client holds the lock. The file is empty while redlock runs, and stays empty if redlock is killed.

Examples:

    redlock run -n -q --min-hold 20s nightly-report -- ./report.sh
    redlock run -w 30s --ttl 15s deploy -- make deploy
    redlock run invoices -- sh -c 'fetch | book'
    redlock run account:1 --also account:2 -- ./transfer.sh
    redlock run --permits 4 exports -- ./export.sh
`
}

// fencing has the flag of commands that take a lock.
type fencing struct {
	Fenced bool `help:"Take a lock that has a fencing number (docs/fencing.md)."`
}

// lifetime has the flag of commands that set a TTL.
type lifetime struct {
	TTL time.Duration `name:"ttl" default:"30s" placeholder:"DURATION" help:"How long the lock lasts without a renewal (${default})."`
}

// Validate is called by package kong.
func (c *runCommand) Validate() error {
	negative := cmp.Or(
		errtext.Negative("--min-hold", c.MinHold), errtext.Negative("--max-hold", c.MaxHold), errtext.Negative("--kill-after", c.KillAfter),
	)
	switch {
	case c.ConflictExitCode < 0 || c.ConflictExitCode > 255:
		return errors.New("--conflict-exit-code must be between 0 and 255")
	case negative != nil:
		return negative
	case c.MinHold > c.TTL:
		return fmt.Errorf("--min-hold is longer than --ttl: %v, and %v", c.MinHold, c.TTL)
	case len(c.Also) > 0 && (c.MinHold > 0 || c.Heal):
		return errors.New("--min-hold and --heal are for a single resource")
	case len(c.Also) >= redlock.MaxResources:
		return fmt.Errorf("at most %d resources can be locked together", redlock.MaxResources)
	}
	for i, resource := range c.Also {
		if resource == c.Resource || slices.Contains(c.Also[:i], resource) {
			return fmt.Errorf("the resource %s is named twice", quoted(resource))
		}
	}
	if err := c.validateForm(); err != nil {
		return err
	}
	return cmp.Or(c.labelling.Validate(), c.waiting.Validate())
}

// Run is the command.
func (c *runCommand) Run(p *process, d *deployment) error {
	command, err := commandOf(c.Command, "run")
	if err != nil {
		return err
	}
	c.Command = command
	file, err := unlessInterrupted(p, func() (outcomeFile, error) { return openOutcome(c.Outcome) })
	if err != nil {
		return err
	}
	o := &outcome{Resource: errtext.Name(strings.Join(c.resources(), ", "))}
	if len(c.Also) > 0 {
		for _, resource := range c.resources() {
			o.Resources = append(o.Resources, errtext.Name(resource))
		}
	}
	err = c.run(p, d, o)
	o.conclude(err, "done")
	if failed := file.write(o); failed != nil {
		p.say("%v", failed) // the exit code is the command's
	}
	return err
}

// run takes the lock and runs the command. It finds out everything that it can
// before it takes the lock.
func (c *runCommand) run(p *process, d *deployment, o *outcome) error {
	for _, resource := range c.resources() {
		if err := checkResource(resource); err != nil {
			return err
		}
	}
	path, err := look(c.Command[0])
	if err != nil {
		return err
	}
	d.nameProcess()
	client, err := d.openFor(p, c.TTL, c.bound(d), c.Fenced)
	if err != nil {
		return c.named(d, err)
	}
	defer shut(client)
	beside := false
	// A permit may be taken beside one's own if there are others.
	if !c.without() && (c.Permits == nil || *c.Permits == 1) {
		if beside, err = d.nested(client, c.Shared, c.resources()...); err != nil {
			return err
		}
	}
	if beside {
		c.NoWait, c.Wait = true, nil
	}
	guard, err := startGuard(p)
	if err != nil {
		return err
	}
	defer guard.End()
	hold, asked, err := c.hold(p, d, client)
	o.WaitedMS = msNumber(time.Since(p.begun))
	if beside && exitCode(err) == exitHeld {
		err = waitsForItself(c.Resource) // it would, behind a writer
	}
	if err != nil {
		o.Outcome = outcomeWord(err) // --conflict-exit-code does not change it
		o.holder(asked.found)
		return asked.held(err, c.ConflictExitCode, c.Quiet)
	}
	started := time.Now()
	end, err := c.supervise(p, d, client, hold, path, guard)
	guard.End() // it must not kill what the command left running if the release takes long
	if err == nil {
		o.CommandExitCode, o.RanMS = &end.Code, msNumber(time.Since(started))
	}
	err = c.verdict(p, hold, end, err)
	if silent(err) && !end.Lost && !end.TooLong {
		o.Outcome = "done" // with the command's exit code, which may be one of ours
	}
	return err
}

// resources returns what is locked.
func (c *runCommand) resources() []string { return append([]string{c.Resource}, c.Also...) }

// beforeCommand returns an error if a resource, or the name of an election, was
// taken from behind the first --, as in "redlock run $JOB -- nice CMD" where the
// variable is not set: that would lock "nice".
func beforeCommand(line *kong.Context) error {
	for _, part := range line.Path {
		if part.Positional == nil || part.Positional.Passthrough {
			continue
		}
		before := line.Args[:len(line.Args)-len(part.Remainder())-1]
		command := line.Selected()
		if last := len(command.Positional) - 1; command.Positional[last].Passthrough && slices.Contains(before, "--") {
			return fmt.Errorf("the %s is missing before --", part.Positional.Name)
		}
	}
	return nil
}

// commandOf returns the words of a command, without the -- before it. It must be
// there: otherwise a command would give its first word to a resource that is
// missing. of names our own command, for the error.
func commandOf(words []string, of string) ([]string, error) {
	switch {
	case len(words) == 0 || words[0] != "--":
		return nil, usagef("there is no -- before the command (see redlock %s --help)", of)
	case len(words) == 1:
		return nil, usagef("no command to run (see redlock %s --help)", of)
	}
	return words[1:], nil
}

// look finds the program of a command as a shell does.
func look(name string) (path string, err error) {
	if path, err = exec.LookPath(name); err != nil {
		return "", startError(err)
	}
	return path, nil
}

// startError gives an error of a program that cannot be run the exit code that
// shells give it.
func startError(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &exitError{exitNotFound, err}
	}
	return &exitError{exitNotExecutable, err}
}

// supervise runs the command until it has ended. It returns an error if the
// command was not started.
func (c *runCommand) supervise(p *process, d *deployment, client *redlock.Client, hold *redlock.Hold, path string, guard *supervise.Guard) (supervise.Ending, error) {
	return superviseCommand(p, guard, &supervise.Command{
		Path: path, Args: c.Command, Env: d.environment(client, c.PassCredentials, c.Shared, c.resources()...), Hold: hold, Resource: hold.Resource(),
		TTL: c.TTL, KillAfter: c.KillAfter, MaxHold: c.MaxHold, Bound: "--max-hold", Signals: p.signals,
	})
}

// startGuard starts a guard, whose command has this process's standard streams.
func startGuard(p *process) (*supervise.Guard, error) {
	stdio, _ := streams(p)
	guard, err := supervise.StartGuard(stdio[0], stdio[1], stdio[2])
	if err != nil {
		return nil, fmt.Errorf("the guard could not be started: %w", err)
	}
	return guard, nil
}

// streams returns the standard streams of a process as files. If one is none,
// real is false, and no command can be started: not a byte passes through us.
func streams(p *process) (stdio [3]*os.File, real bool) {
	stdio, real = [3]*os.File{os.Stdin, os.Stdout, os.Stderr}, true
	for i, stream := range []any{p.stdin, p.stdout, p.stderr} {
		if file, ok := stream.(*os.File); ok {
			stdio[i] = file
		} else {
			real = false
		}
	}
	return stdio, real
}

// superviseCommand runs a command until it has ended. Its errors have exit codes.
func superviseCommand(p *process, guard *supervise.Guard, command *supervise.Command) (supervise.Ending, error) {
	if _, real := streams(p); !real {
		return supervise.Ending{}, errors.New("a command needs real files as standard streams")
	}
	command.Stderr = p.stderr
	end, err := guard.Run(command)
	var start *supervise.StartError
	switch {
	case errors.Is(err, supervise.ErrLost):
		err = &exitError{exitLost, err}
	case errors.As(err, &start):
		err = startError(start.Err)
	}
	return end, err
}

// hold waits for the lock. A plain lock does not see readers: where there are
// some, it is the writer's, as users of flock(1) expect.
func (c *runCommand) hold(p *process, d *deployment, client *redlock.Client) (hold *redlock.Hold, asked *contest, err error) {
	hold, asked, err = c.holdOnce(p, d, client)
	if stranger := (*strangerError)(nil); errors.As(err, &stranger) && stranger.ours == "--exclusive" {
		writer := *c
		if writer.Exclusive = !c.is(); writer.Exclusive && writer.validateForm() == nil {
			return writer.holdOnce(p, d, client)
		}
	}
	return hold, asked, err
}

// holdOnce is hold for the form that was asked for. A signal ends the wait.
func (c *runCommand) holdOnce(p *process, d *deployment, client *redlock.Client) (hold *redlock.Hold, asked *contest, err error) {
	options := redlock.HoldOptions{TTL: c.TTL, Label: c.Label, MinHold: c.MinHold, Heal: c.Heal}
	try, wait := c.holders(client)
	granted := func(ctx context.Context, err error) error {
		if err != nil {
			return err
		}
		return c.strangers(ctx, client, c.TTL, c.bound(d), c.resources()...)
	}
	asked = &contest{client: client, resource: c.Resource, most: c.MinHold / 2, inTheWay: c.inTheWay, try: func(ctx context.Context) (err error) {
		hold, err = try(ctx, options)
		if held := (*redlock.HeldError)(nil); errors.As(err, &held) && held.Resource != "" {
			asked.resource = held.Resource // the one of several that is in the way
		}
		return granted(ctx, err)
	}}
	err = c.wait(p, d, asked, func(ctx context.Context) (err error) {
		hold, err = wait(ctx, options)
		return granted(ctx, err)
	})
	if err != nil && hold != nil {
		_ = release(hold) // a signal came right after the grant, or others were there
	}
	return hold, asked, err
}

// verdict releases the lock and returns the outcome. A lost lock counts however
// the command ended: it may have worked unlocked.
func (c *runCommand) verdict(p *process, hold *redlock.Hold, end supervise.Ending, err error) error {
	lost := errors.Is(hold.Err(), redlock.ErrLost)
	released := release(hold)
	switch {
	case err != nil:
		return err
	case end.Lost:
		return &exitError{code: exitLost} // it was reported when it happened
	case lost:
		return &exitError{exitLost, errors.New("the lock was lost as the command ended, which may have worked unlocked")}
	case errors.Is(released, redlock.ErrNotHeld):
		return &exitError{exitLost, errors.New("the lock was gone before it was released: the command may have worked unlocked")}
	case released != nil:
		// The command ended within the validity, so it has not failed.
		p.say("the lock could not be released everywhere, and ends with its TTL there: %v", released)
	}
	if end.TooLong {
		return &exitError{code: exitTooLong}
	}
	return &exitError{code: end.Code}
}
