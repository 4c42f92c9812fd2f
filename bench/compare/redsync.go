package compare

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
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

// redsyncLocker is redsync behind the calls of this package. A Mutex belongs to one caller and is made per lock, as
// redsync's examples do.
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

// errUnlock is an Unlock that says no without a reason.
var errUnlock = errors.New("compare: redsync did not unlock")

// Release unlocks; nil when a quorum did.
func (l redsyncLease) Release(ctx context.Context) error {
	return unlocked(l.UnlockContext(ctx))
}

// unlocked is what redsync's answer comes to. Where a quorum released, the error tells what the other masters said; where
// none did there need not be one.
func unlocked(ok bool, err error) error {
	switch {
	case ok:
		return nil
	case err == nil:
		return errUnlock
	}
	return err
}

func openRedsyncGoredis(options ...redsync.Option) func(urls []string) (Pairer, error) {
	return func(urls []string) (Pairer, error) {
		clients, err := goredisClients(urls)
		if err != nil {
			return nil, err
		}
		var pools []redsyncredis.Pool
		for _, c := range clients {
			pools = append(pools, goredis.NewPool(c))
		}
		return pairer[redsyncLease]{redsyncLocker{redsync.New(pools...), options, func() { closeAll(clients) }}}, nil
	}
}

// goredisClients makes a client per master with default options; only the address is set. They dial when they are used.
func goredisClients(urls []string) (clients []*goredislib.Client, err error) {
	// Pools, timeouts and retries are go-redis's own. That includes its read timeout of five seconds, which is how long a
	// stopped master holds up whoever waits for it.
	for _, url := range urls {
		e, err := conn.ParseURL(url)
		if err != nil {
			closeAll(clients)
			return nil, err
		}
		clients = append(clients, goredislib.NewClient(&goredislib.Options{Network: e.Network, Addr: e.Addr}))
	}
	return clients, nil
}

func closeAll(clients []*goredislib.Client) {
	for _, c := range clients {
		_ = c.Close()
	}
}

// openRedsyncRueidis uses redsync's own adapter for rueidis. The adapter takes rueidis through rueidiscompat, whose version
// go.mod pins.
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

// rueidisClient has default options, but takes a server for what it is: a single one.
func rueidisClient(url string) (rueidis.Client, error) {
	e, err := conn.ParseURL(url)
	if err != nil {
		return nil, err
	}
	o := rueidis.ClientOption{InitAddress: []string{e.Addr}, ForceSingleClient: true}
	if e.Network == "unix" {
		o.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
	}
	return rueidis.NewClient(o)
}
