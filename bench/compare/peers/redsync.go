package peers

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	goredislib "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/cmd/loadgen/load"
	"github.com/redmux/redmux/redlock"
)

// redsyncLocker makes a Mutex for each lock, as redsync's examples do.
type redsyncLocker struct {
	redsync *redsync.Redsync
	options []redsync.Option
	close   func()
}

type redsyncLease struct{ *redsync.Mutex }

func (l redsyncLocker) lock(ctx context.Context, resource string, ttl time.Duration, tries int) (redsyncLease, error) {
	options := append([]redsync.Option{redsync.WithExpiry(ttl), redsync.WithTries(tries)}, l.options...)
	m := l.redsync.NewMutex(resource, options...)
	err := m.LockContext(ctx)
	if errors.Is(err, redsync.ErrFailed) && ctx.Err() != nil {
		err = ctx.Err() // which redsync does not say when it stops trying
	}
	return redsyncLease{m}, classed(err)
}

// TryAcquire makes one try.
func (l redsyncLocker) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (redsyncLease, error) {
	return l.lock(ctx, resource, ttl, 1)
}

// Acquire tries again with redsync's default delays, 50 to 250 ms.
func (l redsyncLocker) Acquire(ctx context.Context, resource string, ttl time.Duration) (redsyncLease, error) {
	return l.lock(ctx, resource, ttl, math.MaxInt32)
}

// Close closes the clients. What they still have under way fails.
func (l redsyncLocker) Close(context.Context) error {
	l.close()
	return nil
}

// Release implements bench.Lease.
func (l redsyncLease) Release(ctx context.Context) error { return redsyncError(l.UnlockContext(ctx)) }

// Token implements bench.Lease.
func (l redsyncLease) Token() redlock.Token { return tokenOf(l.Value()) }

// Extend extends by the TTL that the lock was made with; redsync takes no other.
func (l redsyncLease) Extend(ctx context.Context, _ time.Duration) error {
	return redsyncError(l.ExtendContext(ctx))
}

// redsyncError makes one error of the two results of redsync. If ok, the error
// is that of other masters than the quorum; otherwise there may be none.
func redsyncError(ok bool, err error) error {
	switch {
	case ok:
		return nil
	case err == nil:
		err = errRefused
	}
	return classed(err)
}

// openRedsync opens redsync on go-redis with default options, or so that it
// returns at the quorum and go-redis keeps the timeouts of contexts.
func openRedsync(tuned bool) func(load.Settings) (bench.Locker[redsyncLease], error) {
	return func(s load.Settings) (bench.Locker[redsyncLease], error) {
		clients, err := goredisClients(s, goredislib.Options{ContextTimeoutEnabled: tuned})
		if err != nil {
			return nil, err
		}
		var pools []redsyncredis.Pool
		for _, c := range clients {
			pools = append(pools, goredis.NewPool(c))
		}
		l := redsyncLocker{redsync: redsync.New(pools...), close: func() {
			for _, c := range clients {
				_ = c.Close()
			}
		}}
		if tuned {
			l.options = []redsync.Option{redsync.WithFailFast(true)}
		}
		return l, nil
	}
}

// openRedsyncRueidis uses redsync's own adapter for rueidis.
func openRedsyncRueidis(s load.Settings) (bench.Locker[redsyncLease], error) {
	all, err := endpoints(s)
	if err != nil {
		return nil, err
	}
	var clients []rueidis.Client
	l := redsyncLocker{close: func() {
		for _, c := range clients {
			c.Close()
		}
	}}
	var pools []redsyncredis.Pool
	for _, e := range all {
		// Default options, and a server is the single server that it is.
		o := rueidis.ClientOption{InitAddress: []string{e.Addr}, TLSConfig: e.TLS, Username: e.Username, Password: e.Password,
			SelectDB: e.DB, ForceSingleClient: true}
		if e.Network == "unix" {
			o.DialCtxFn = dialUnix
		}
		c, err := rueidis.NewClient(o)
		if err != nil {
			l.close()
			return nil, err
		}
		clients, pools = append(clients, c), append(pools, redsyncrueidis.NewPool(rueidiscompat.NewAdapter(c)))
	}
	l.redsync = redsync.New(pools...)
	return l, nil
}
