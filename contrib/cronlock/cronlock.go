// Package cronlock makes several processes that schedule jobs with
// github.com/robfig/cron/v3 run each of them once, by locks of package redlock.
// It does not import cron, so it adds no dependency.
//
//	locker, err := cronlock.New(client, cronlock.Options{MinHold: 5 * time.Second})
//	c := cron.New()
//	_, err = c.AddJob("0 3 * * *", locker.Job(ctx, "report", report))
//
// Each run goes to the process that is first. For all runs of all jobs to go to
// one process, start a cron of its own in each term of an election; see
// docs/recipes.md, "A scheduler that one process runs".
package cronlock

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redmux/redmux/contrib/internal/door"
	"github.com/redmux/redmux/contrib/internal/resource"
	"github.com/redmux/redmux/contrib/internal/turn"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
)

// Options configure a Locker. The zero value works.
type Options struct {
	// Prefix precedes the names of jobs. If zero, "cron:". At most 953 bytes,
	// without ":redlock:".
	Prefix string
	// TTL is how long a lock outlives a process that dies, and so the longest
	// time that the others then wait. A process that lives renews its lock,
	// however long its job runs. If zero, 30 s.
	TTL time.Duration
	// MinHold is the least time for which a job's lock is kept from the other
	// processes, counted from the start of the job, even if the job is over
	// sooner. It must be longer than the difference between the processes'
	// clocks plus their delay, or several of them run a short job. It must be
	// shorter than the interval between runs, or the next run is left out. At
	// most the TTL. If zero, half a second, or the TTL if that is less; if
	// negative, there is no minimum.
	MinHold time.Duration
	// Done is called when a run of a job is over, by the goroutine of cron that
	// ran it, unless the job has panicked. err is nil if the job ran here and
	// returned nil while it held its lock. It is redlock.ErrHeld if the job
	// runs in another process, or still runs since an earlier time; other
	// errors of redlock.Locker.TryHold say that this process did not run it, so
	// that this run is lost unless another process got the lock. Else the job
	// ran here, and err joins what it returned, redlock.ErrLost if the lock was
	// lost meanwhile, so that another process may have run it too, and the
	// error of the release. If nil, slog.Default gets the errors other than
	// redlock.ErrHeld.
	Done func(job string, err error)
}

// A Locker makes jobs. The caller owns the client, and must keep it open while
// cron runs; the Locker starts no goroutine and need not be closed. It is safe
// for concurrent use.
type Locker struct {
	client *redlock.Client
	prefix string
	hold   redlock.HoldOptions
	done   func(job string, err error)
}

// New creates a Locker without asking any node. It returns an error for invalid
// options.
func New(client *redlock.Client, options Options) (*Locker, error) {
	door.Must(client != nil, "cronlock: the client is nil")
	prefix := cmp.Or(options.Prefix, "cron:")
	hold, err := turn.Options("cronlock", prefix, options.TTL, options.MinHold)
	if err != nil {
		return nil, err
	}
	done := options.Done
	if done == nil {
		done = logged
	}
	return &Locker{client, prefix, hold, done}, nil
}

// logged is the default of Options.Done.
func logged(job string, err error) {
	if err != nil && !ordinary(err) {
		slog.Default().Error("cronlock: a run of a job has failed", "job", job, "error", err)
	}
}

// ordinary reports whether the job runs elsewhere, or was not started because
// cron is being stopped.
func ordinary(err error) bool {
	return errors.Is(err, redlock.ErrHeld) || errors.Is(err, errStopped)
}

// errStopped is what a run ends with if the context of Job has ended before.
var errStopped = errors.New("cronlock: the job's context has ended")

// A Job is a cron.Job.
type Job struct {
	locker *Locker
	ctx    context.Context // of all runs
	name   string
	run    func(context.Context) error
}

// Job returns a cron.Job that calls run under the lock of that name. Jobs with
// the same name in different processes are the same job, and never run at the
// same time; two jobs of one process need different names.
//
// The context of run has the values of ctx and ends with it, and when the lock
// is lost, with redlock.ErrLost as the cause; run must then return, since
// another process may begin. The lock is released when run has returned, after
// a panic too. redlock.FromContext finds the hold, and so the fencing number.
//
// cron's Stop does not wait for jobs, but returns a context that does; it
// cancels none. At a shutdown, call Stop, end ctx to have running jobs return
// early, wait for that context, and then close the client. When ctx has ended,
// runs are left out.
func (l *Locker) Job(ctx context.Context, name string, run func(context.Context) error) *Job {
	door.Must(l != nil && l.client != nil, "cronlock: a nil or zero Locker: New makes one")
	door.Must(ctx != nil, "cronlock: the context is nil")
	door.Must(run != nil, "cronlock: the function is nil")
	return &Job{l, ctx, name, run}
}

// Run runs the job if no other process does. cron calls it.
func (j *Job) Run() {
	door.Must(j != nil && j.locker != nil, "cronlock: a nil or zero Job: Locker.Job makes one")
	j.locker.done(j.name, j.once())
}

func (j *Job) once() error {
	if err := j.stopped(); err != nil {
		return err
	}
	l := j.locker
	hold, err := turn.Take(j.ctx, l.client, resource.Name(l.prefix, j.name), l.hold)
	ran := false
	if err == nil {
		err = j.under(hold, func(ctx context.Context) error {
			ran = true
			return j.run(ctx)
		})
	}
	if stopped := j.stopped(); stopped != nil && err != nil && !ran {
		err = errtext.Join(stopped, err)
	}
	return err
}

// stopped returns why no run begins any more, or nil.
func (j *Job) stopped() error {
	if j.ctx.Err() == nil {
		return nil
	}
	return errtext.Join(errStopped, context.Cause(j.ctx))
}

// under calls run under the hold, unless that has ended, and releases the hold.
func (j *Job) under(hold *redlock.Hold, run func(context.Context) error) (err error) {
	both, end := context.WithCancelCause(hold.Context())
	stop := context.AfterFunc(j.ctx, func() { end(context.Cause(j.ctx)) })
	defer func() {
		stop()
		end(nil)
		cause := hold.Err() // before the release sets another
		released := hold.Release(context.WithoutCancel(j.ctx))
		if errors.Is(cause, redlock.ErrLost) {
			released = nil // it would name the same nodes again
			if cancelled := (*redlock.CancelledError)(nil); errors.As(err, &cancelled) && errors.Is(cancelled, cause) {
				err = cause // the job did not begin, and not because it was cancelled
			}
		}
		err = errtext.Join(err, released)
	}()
	// The context that this passes on reads the clocks (R15).
	options := j.locker.hold
	options.Reentrant = true
	return j.locker.client.Lock(hold.Resource()).DoWith(both, options, run)
}
