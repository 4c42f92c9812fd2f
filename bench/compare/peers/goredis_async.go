package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	goredislib "github.com/redis/go-redis/v9"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/cmd/loadgen/load"
	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/redlock"
)

// goredisLocker is a Redlock on go-redis' asynchronous automatic pipelining: a
// command goes to all masters before any reply is waited for, and no goroutine
// is started for it.
//
// Each master has one ordered stream of commands, so a release never overtakes
// its SET (R8) while the connection lives. go-redis offers no call that waits
// for the first of several replies, so a caller waits for one master after the
// other, until its outcome is decided. A master that lets the vote timeout pass
// is asked last from then on, until it answers: it costs every caller that was
// waiting for it one vote timeout, and later ones nothing.
type goredisLocker struct {
	masters []*goredisMaster
	quorum  int
	timeout time.Duration // of a vote; if zero, a tenth of the TTL
	tokens  bench.Tokens
	pace    bench.Pace
}

type goredisMaster struct {
	client *goredislib.Client
	pipe   *goredislib.AutoPipeliner
	late   atomic.Bool
}

type goredisLease struct {
	locker          *goredisLocker
	resource, token string
	ttl             time.Duration
	until           time.Time
}

// openGoredisAsync opens the locker, half duplex (go-redis' default) or full
// duplex. Other options are the defaults of the asynchronous face.
func openGoredisAsync(fullDuplex bool) func(load.Settings) (bench.Locker[goredisLease], error) {
	return func(s load.Settings) (bench.Locker[goredisLease], error) {
		all, err := endpoints(s)
		if err != nil {
			return nil, err
		}
		l := &goredisLocker{quorum: len(all)/2 + 1, timeout: s.NodeTimeout}
		for _, e := range all {
			m, err := dialGoredisAsync(e, fullDuplex)
			if err != nil {
				_ = l.Close(context.Background())
				return nil, err
			}
			l.masters = append(l.masters, m)
		}
		return l, nil
	}
}

func dialGoredisAsync(e conn.Endpoint, fullDuplex bool) (*goredisMaster, error) {
	client := goredislib.NewClient(goredisOptions(e, goredislib.Options{}))
	options := goredislib.DefaultAutoPipelineOptions()
	options.FullDuplex = fullDuplex
	pipe, err := client.AsyncAutoPipelineWithOptions(options)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	client.ScriptLoad(context.Background(), bench.ReleaseScript) // a master that is down is no error
	return &goredisMaster{client: client, pipe: pipe}, nil
}

// TryAcquire makes one attempt. If it fails, the release is on its way to every
// master.
func (l *goredisLocker) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (goredisLease, error) {
	start := time.Now()
	lease := goredisLease{locker: l, resource: resource, token: l.tokens.Next(), ttl: ttl}
	ms := strconv.FormatInt(ttl.Milliseconds(), 10)
	votes := l.send(func() goredislib.Cmder { return setCommand(resource, lease.token, ms) })
	c := l.count(ctx, votes, ttl)
	if c.granted >= l.quorum {
		now := time.Now()
		l.pace.Observe(now.Sub(start))
		if left := bench.Validity(ttl, start, now); left > 0 {
			lease.until = now.Add(left)
			return lease, nil
		}
		lease.send()
		return goredisLease{}, redlock.ErrExpired
	}
	lease.send()
	return goredisLease{}, c.refusal(len(l.masters)-l.quorum+1, redlock.ErrHeld)
}

// Acquire asks again, as the baseline of package bench does.
func (l *goredisLocker) Acquire(ctx context.Context, resource string, ttl time.Duration) (goredisLease, error) {
	return bench.Retry(ctx, &l.pace, func() (goredisLease, error) { return l.TryAcquire(ctx, resource, ttl) })
}

// Until implements bench.Lease.
func (g goredisLease) Until() time.Time { return g.until }

// Token implements bench.Lease.
func (g goredisLease) Token() redlock.Token { return tokenOf(g.token) }

// Release returns nil if a quorum still held the token.
func (g goredisLease) Release(ctx context.Context) error {
	l := g.locker
	c := l.count(ctx, g.send(), g.ttl)
	if c.granted >= l.quorum {
		return nil
	}
	return c.refusal(len(l.masters)-l.quorum+1, redlock.ErrNotHeld)
}

// send sends the release to all masters.
func (g goredisLease) send() []goredisVote {
	votes := g.locker.send(func() goredislib.Cmder { return deleteCommand(g.resource, g.token) })
	for i := range votes {
		votes[i].again = func() goredislib.Cmder { return scriptCommand(g.resource, g.token) }
	}
	return votes
}

// Close closes the pipelines and the clients.
func (l *goredisLocker) Close(context.Context) error {
	var errs []error
	for _, m := range l.masters {
		errs = append(errs, m.pipe.Close(), m.client.Close())
	}
	return errors.Join(errs...)
}

// A goredisVote is a command that a master was sent.
type goredisVote struct {
	goredislib.AutoFuture
	again func() goredislib.Cmder // what to send if the script is lost, or nil
}

// send sends a command to every master. Each has a command of its own, which
// takes the reply.
func (l *goredisLocker) send(command func() goredislib.Cmder) []goredisVote {
	votes := make([]goredisVote, len(l.masters))
	for i, m := range l.masters {
		votes[i].AutoFuture = m.pipe.Submit(context.Background(), command())
	}
	return votes
}

// counts are the votes that were waited for.
type counts struct {
	granted, refused, failed int
	last                     error // of those that failed
}

// count waits until a quorum granted or cannot be reached any more, the vote
// timeout is over (a tenth of the TTL, as for the other peers) or ctx ends.
func (l *goredisLocker) count(ctx context.Context, votes []goredisVote, ttl time.Duration) (c counts) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(l.timeout, ttl/10))
	defer cancel()
	blocking := len(votes) - l.quorum + 1
	var asked uint64 // a bit for each master
	for _, all := range []bool{false, true} {
		for i, m := range l.masters {
			if asked>>i&1 == 1 || !all && m.late.Load() {
				continue
			}
			asked |= 1 << i
			c.add(m, votes[i].wait(ctx, m), votes[i].Cmd())
			if c.granted >= l.quorum || c.refused+c.failed >= blocking {
				return c
			}
		}
	}
	return c
}

// wait waits for the reply, and sends the script to a master that lost it.
func (v *goredisVote) wait(ctx context.Context, m *goredisMaster) error {
	err := v.WaitContext(ctx)
	if lostScript(err) && v.again != nil {
		v.AutoFuture = m.pipe.Submit(context.Background(), v.again())
		err = v.WaitContext(ctx)
	}
	return err
}

// add counts a vote. The command may be read only if it has its reply.
func (c *counts) add(m *goredisMaster, err error, cmd goredislib.Cmder) {
	if late := errors.Is(err, context.DeadlineExceeded); m.late.Load() != late {
		m.late.Store(late)
	}
	switch {
	case err != nil:
		c.failed++
		c.last = err
	case cmd.(*goredislib.BoolCmd).Val():
		c.granted++
	default:
		c.refused++
	}
}

// refusal returns ErrNoQuorum if failures alone made a quorum impossible, and
// otherwise what refused means here (R12).
func (c counts) refusal(blocking int, refused error) error {
	if c.failed >= blocking || c.refused == 0 {
		return fmt.Errorf("%w: %w", redlock.ErrNoQuorum, c.last)
	}
	return refused
}
