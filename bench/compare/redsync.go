package compare

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	goredislib "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"

	"github.com/redmux/redmux/conn"
)

// redsyncLocker is redsync behind the calls of this package. Each lock has a
// Mutex of its own, as in redsync's examples.
type redsyncLocker struct {
	*redsync.Redsync
	options []redsync.Option
	close   func()
}

type redsyncLease struct{ *redsync.Mutex }

// failFast makes redsync return at the quorum, which is not its default.
var failFast = redsync.WithFailFast(true)

// TryAcquire makes one try.
func (l redsyncLocker) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (redsyncLease, error) {
	m := l.NewMutex(resource, redsync.WithExpiry(ttl), redsync.WithTries(1))
	for _, o := range l.options {
		o.Apply(m)
	}
	return redsyncLease{m}, m.LockContext(ctx)
}

// Close closes the clients. What they still have under way fails.
func (l redsyncLocker) Close(context.Context) error {
	l.close()
	return nil
}

// errRefused is returned when redsync reports a failure without a reason.
var errRefused = errors.New("compare: redsync failed")

// Release returns nil if a quorum unlocked.
func (l redsyncLease) Release(ctx context.Context) error {
	return RedsyncError(l.UnlockContext(ctx))
}

// RedsyncError makes one error of the two results of redsync. If ok, the error
// is that of other masters than the quorum; otherwise there may be none.
func RedsyncError(ok bool, err error) error {
	switch {
	case ok:
		return nil
	case err == nil:
		return errRefused
	}
	return err
}

func openRedsyncGoredis(options ...redsync.Option) func(urls []string) (Pairer, error) {
	return func(urls []string) (Pairer, error) {
		r, closeClients, err := NewRedsync(urls, goredislib.Options{})
		if err != nil {
			return nil, err
		}
		return pairer[redsyncLease]{redsyncLocker{r, options, closeClients}}, nil
	}
}

// NewRedsync returns redsync on go-redis, whose options are default options
// except for those of with, and a function that closes its clients.
func NewRedsync(urls []string, with goredislib.Options) (r *redsync.Redsync, closeClients func(), err error) {
	var pools []redsyncredis.Pool
	var clients []*goredislib.Client
	closeClients = func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}
	for _, url := range urls {
		c, err := GoredisClient(url, with)
		if err != nil {
			closeClients()
			return nil, nil, err
		}
		clients, pools = append(clients, c), append(pools, goredis.NewPool(c))
	}
	return redsync.New(pools...), closeClients, nil
}

// GoredisClient returns a client for one master, which dials when it is used.
// Unless with says otherwise, pools, timeouts and retries are the defaults of
// go-redis. They include a read timeout of five seconds, for which a stopped
// master blocks a caller that waits for it.
func GoredisClient(url string, with goredislib.Options) (*goredislib.Client, error) {
	e, err := conn.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return goredislib.NewClient(goredisOptions(e, with)), nil
}

// openRedsyncRueidis uses redsync's own adapter for rueidis. The adapter uses
// rueidiscompat, whose version go.mod pins.
func openRedsyncRueidis(options ...redsync.Option) func(urls []string) (Pairer, error) {
	return func(urls []string) (Pairer, error) {
		var clients []rueidis.Client
		closeClients := func() {
			for _, c := range clients {
				c.Close()
			}
		}
		var pools []redsyncredis.Pool
		for _, url := range urls {
			c, err := rueidisClient(url)
			if err != nil {
				closeClients()
				return nil, err
			}
			clients = append(clients, c)
			pools = append(pools, redsyncrueidis.NewPool(rueidiscompat.NewAdapter(c)))
		}
		return pairer[redsyncLease]{redsyncLocker{redsync.New(pools...), options, closeClients}}, nil
	}
}

// rueidisClient has default options, and treats a server as the single server
// that it is.
func rueidisClient(url string) (rueidis.Client, error) {
	e, err := conn.ParseURL(url)
	if err != nil {
		return nil, err
	}
	o := rueidis.ClientOption{InitAddress: []string{e.Addr}, TLSConfig: e.TLS, ForceSingleClient: true}
	if e.Network == "unix" {
		o.DialCtxFn = dialUnix
	}
	return rueidis.NewClient(o)
}
