package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/supervise"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/election"
)

// electCommand runs a command on the one of several machines that leads.
type electCommand struct {
	lifetime
	passing
	labelling
	hooks
	KillAfter time.Duration `default:"5s" placeholder:"DURATION" help:"Time between TERM and KILL for a command that must stop (${default}); at most a third of the TTL, and less if the validity of the lock ends sooner."`
	Listen    string        `placeholder:"ADDRESS" help:"Answer probes over HTTP on HOST:PORT or unix:PATH: /leader with 200 while the command leads, /healthz with 200 while a quorum of masters is up, otherwise 503; / with the same as JSON."`

	Name    string   `arg:"" help:"The name of the election, which is the resource of its lock: 1 to 1,024 bytes."`
	Command []string `arg:"" passthrough:"" help:"The command and its arguments, after --."`
}

// Help is what --help shows below the first line.
func (*electCommand) Help() string {
	return `Of all redlock elect with the same name, one leads and runs its command; the others wait. The command is supervised as by redlock run, with the same environment, process group and guard: see there. REDLOCK_FENCE is the term, a number that is higher than that of every leader before. --owner names this candidate in redlock status; if it is not set, the host and the process do, and --no-owner is an error.

When the leadership is lost, the command is stopped before another one can be elected, and this candidate waits for its next turn. When the command ends by itself, its leadership ends, and so does redlock elect. INT, TERM and HUP end the candidacy; a command that runs gets them, and the lock is released only after it has ended, so another candidate leads at once and never too early.

--on-elected and --on-lost run a command before and after that of a term, with its environment. --on-lost has no REDLOCK_UNTIL, but REDLOCK_OUTCOME: done, failed (--on-elected failed, or the command could not be started), lost or interrupted. The first runs under the lock as the command does. If it fails, or takes longer than --hook-timeout, the command is not started, --on-lost runs, and after a second this candidate campaigns again. The second runs when the command has ended, before the lock is released; after a loss, another leader may be at work by then. It runs however a term ends, also after a signal, but not if redlock itself is killed. It has no guard, and gets no signal: after --hook-timeout it gets KILL at once, with its process group, and if redlock is killed meanwhile it works on. Its failure is reported, and changes nothing else.

With --listen, /leader says yes only as long as the command would not be stopped for want of a renewal, so never after the end of the validity, and not while a hook runs. What asks keeps a yes until it asks again: --kill-after should be longer than that. An address that cannot be listened on, or that another process has, ends redlock before it campaigns; the socket of a process that was killed is replaced. What goes wrong later is said on standard error, once a minute at most, and ends nothing.

Exit code: that of the command that ended by itself or was interrupted, or 128 + N if signal N ended it or the wait; 70 the lock was gone when the command ended, 69 no quorum, 64 usage, 126 the command cannot be executed, 127 it was not found.

Examples:

    redlock elect billing -- ./billing-worker
    redlock elect --ttl 10s --owner web-1 scheduler -- ./scheduler --once
    redlock elect --listen :8080 --on-lost './drain.sh' api -- ./api
`
}

// Validate is called by package kong.
func (c *electCommand) Validate() error {
	if c.HookTimeout <= 0 {
		return errors.New("--hook-timeout must be more than 0")
	}
	return cmp.Or(c.labelling.Validate(), errtext.Negative("--kill-after", c.KillAfter))
}

// restAfterLoss is how long a candidate waits after its command was stopped for
// a loss, while the lock may still be its own.
const restAfterLoss = time.Second

// Run is the command. It finds out everything that it can before it campaigns.
func (c *electCommand) Run(p *process, d *deployment) error {
	command, err := commandOf(c.Command, "elect")
	if err != nil {
		return err
	}
	c.Command = command
	if err := checkResource(c.Name); err != nil {
		return err
	}
	path, err := look(c.Command[0])
	if err != nil {
		return err
	}
	if d.NoOwner {
		return usagef("a candidate has a name: redlock elect excludes --no-owner, and REDLOCK_NO_OWNER")
	}
	d.nameProcess()
	var listener net.Listener
	if c.Listen != "" {
		if listener, err = listenOn(c.Listen); err != nil {
			return err
		}
		defer listener.Close()
	}
	client, err := d.openFor(p, c.TTL, d.Timeout, true)
	if err != nil {
		return err
	}
	defer shut(client)
	if _, err := d.nested(client, false, c.Name); err != nil {
		return err
	}
	r := startRelay(p.signals)
	defer r.end()
	term := electedTerm{
		electCommand: c, process: p, deployment: d, client: client, relay: r, path: path,
		standing: newStanding(client, c.Name, d.Owner, supervise.StopsAt(c.KillAfter, c.TTL), r.ctx),
	}
	if listener != nil {
		defer term.standing.serve(listener, p.say)()
	}
	term.election, err = election.New(client, c.Name, election.Options{
		TTL: c.TTL, Label: c.Label, Rest: restAfterLoss, TermDone: term.over,
	})
	if err != nil {
		return err
	}
	err = term.election.Run(r.ctx, term.lead)
	r.end()
	return term.verdict(err)
}

// An electedTerm is the latest term of a candidate.
type electedTerm struct {
	*electCommand
	process    *process
	deployment *deployment
	client     *redlock.Client
	relay      *relay
	path       string
	election   *election.Election
	standing   *standing

	ended bool // the command has ended, and was not stopped for a loss
	end   supervise.Ending
	info  election.TermInfo
}

// lead runs the command, and returns nil when it has ended.
func (t *electedTerm) lead(ctx context.Context, _ uint64) error {
	t.ended = false
	signals, leave := t.relay.join()
	defer leave()
	if ctx.Err() != nil {
		return ctx.Err() // a signal came before the relay would have passed it on
	}
	switch err := new(form).strangers(ctx, t.client, t.TTL, t.deployment.Timeout, t.Name); {
	case errors.As(err, new(*unseenError)):
		t.process.say("%v", err)
		_ = t.election.StepDown(ctx) // and campaign again
		return redlock.ErrLost
	case err != nil:
		return err
	}
	hold, _ := redlock.FromContext(ctx)
	env := t.deployment.environment(t.client, t.PassCredentials, false, t.Name)
	word, err := t.work(ctx, hold, env, signals)
	t.left(hold.Current().Fence(), env, word)
	return err
}

// work runs the first hook and the command. word is how the term has ended.
func (t *electedTerm) work(ctx context.Context, hold *redlock.Hold, env []string, signals chan os.Signal) (word string, err error) {
	t.end = supervise.Ending{}
	failed := t.elected(hold, env, signals)
	if err = cmp.Or(failed, t.relay.signal()); err == nil {
		t.end, err = t.run(hold, env, signals)
	}
	t.ended = err == nil && !t.end.Lost
	switch signal := t.relay.signal(); {
	case t.end.Lost || isOneOf(err, supervise.ErrLost, redlock.ErrLost):
		// What ran was stopped early enough, so the lock may be ours still.
		_ = t.election.StepDown(ctx)
		return outcomeWord(redlock.ErrLost), redlock.ErrLost
	case failed != nil && signal == nil:
		t.process.say("%v; the command is not started", failed)
		_ = t.election.StepDown(ctx)
		return "failed", failed
	case errors.Is(hold.Err(), redlock.ErrLost):
		return outcomeWord(redlock.ErrLost), err // as the command ended
	case signal != nil:
		return "interrupted", err
	case err != nil:
		return "failed", err
	}
	return "done", nil
}

// run runs the command until it has ended.
func (t *electedTerm) run(hold *redlock.Hold, env []string, signals chan os.Signal) (supervise.Ending, error) {
	guard, err := startGuard(t.process)
	if err != nil {
		return supervise.Ending{}, err
	}
	defer guard.End()
	t.standing.begins(hold)
	defer t.standing.ends()
	return superviseCommand(t.process, guard, &supervise.Command{
		Path: t.path, Args: t.Command, Env: env, Hold: hold, Resource: t.Name, TTL: t.TTL, KillAfter: t.KillAfter, Signals: signals,
		Stopping: t.standing.ends,
	})
}

// over takes in what is known of a term that has ended. If the lock was lost,
// the election goes on, unless a signal has ended it.
func (t *electedTerm) over(info election.TermInfo) {
	t.info = info
	t.ended = t.ended && (!errors.Is(info.Cause, redlock.ErrLost) || t.relay.signal() != nil)
}

// verdict returns the outcome, for what the election has returned. A lost lock
// counts however the command ended: it may have worked unlocked.
func (t *electedTerm) verdict(err error) error {
	interrupted := t.relay.signal()
	switch {
	case !t.ended && interrupted != nil:
		return interrupted
	case !t.ended:
		return err
	case errors.Is(t.info.Cause, redlock.ErrLost):
		return &exitError{exitLost, errors.New("the lock was lost as the command ended, which may have worked unlocked")}
	case errors.Is(t.info.Released, redlock.ErrNotHeld):
		return &exitError{exitLost, errors.New("the lock was gone before it was released: the command may have worked unlocked")}
	case t.info.Released != nil:
		t.process.say("the lock could not be released everywhere, and ends with its TTL there: %v", t.info.Released)
	}
	return &exitError{code: t.end.Code}
}

// A relay receives the signals to this process. The first one ends its context.
// The command that runs gets all.
type relay struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	ends   sync.Once
	wg     sync.WaitGroup

	mu sync.Mutex     // guards the following
	to chan os.Signal // of the command; nil if none runs
}

// startRelay starts the goroutine that receives signals until end.
func startRelay(signals <-chan os.Signal) *relay {
	r := &relay{done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.wg.Go(func() {
		for {
			select {
			case s := <-signals:
				r.pass(s)
			case <-r.done:
				return
			}
		}
	})
	return r
}

func (r *relay) pass(s os.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel(&errInterrupted{s})
	select {
	case r.to <- s:
	default: // no command runs, or it has not taken the ones before
	}
}

// waitingSignals is how many signals a command can be behind.
const waitingSignals = 16

// join returns a channel that gets the signals from now on, until leave. The
// command may ask for more signals on it.
func (r *relay) join() (signals chan os.Signal, leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = make(chan os.Signal, waitingSignals)
	signals = r.to
	return signals, func() {
		signal.Stop(signals)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.to = nil
	}
}

// signal returns the signal that ended the context, or nil.
func (r *relay) signal() error { return interrupted(r.ctx) }

// end ends the goroutine and waits for it. A second call does nothing.
func (r *relay) end() {
	r.ends.Do(func() { close(r.done) })
	r.wg.Wait()
}
