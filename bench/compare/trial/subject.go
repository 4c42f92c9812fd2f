package trial

import (
	"context"
	"slices"
	"time"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/bench/compare/peers"
	"github.com/redmux/redmux/cmd/loadgen/load"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// A Subject is one implementation with one set of options.
type Subject struct {
	Name string
	// Ours marks this module's own.
	Ours bool
	// Nodes is how many masters it uses.
	Nodes int
	// Extends says whether it can extend a lock.
	Extends bool

	prepare func(urls []string) error // once, on new masters; may be nil
	open    func(urls []string) (Client, error)
}

// A Client acquires locks. Its methods are safe for concurrent use.
type Client interface {
	// TryAcquire makes one try.
	TryAcquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error)
	// Acquire tries again as the implementation does, until ctx ends.
	Acquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error)
	Close()
}

// A Lock is one that was granted.
type Lock interface {
	// Until returns the end of validity, as the implementation says it.
	Until() time.Time
	// Extend asks for another TTL. It returns nil if the implementation says
	// that the lock is held for it.
	Extend(ctx context.Context, ttl time.Duration) error
	// Release returns nil if the implementation says that it released the lock.
	Release(ctx context.Context) error
}

// mostTTL is the longest TTL of any trial.
const mostTTL = 10 * time.Second

// Subjects are all that are tried: this module on masters that were opened with
// redlock.Init, the same with Forgetful, which switches the delayed restart off,
// the Redlock of package bench on rueidis, and peers.
var Subjects = []Subject{
	{Name: "redlock", Ours: true, Nodes: 5, Extends: true, prepare: initOurs, open: openOurs(false)},
	{Name: "redlock-forgetful", Ours: true, Nodes: 5, Extends: true, open: openOurs(true)},
	{Name: "rueidis", Nodes: 5, open: openBaseline},
	{Name: "go-redis-blocking", Nodes: 5, open: openPeer("go-redis-blocking")},
	{Name: "redsync", Nodes: 5, Extends: true, open: openPeer("redsync")},
	{Name: "redsync-tuned", Nodes: 5, Extends: true, open: openPeer("redsync-tuned")},
	{Name: "redislock", Nodes: 1, Extends: true, open: openPeer("redislock")},
}

func initOurs(urls []string) error {
	_, err := admin.Init(context.Background(), redlock.Config{Nodes: redlock.Nodes(urls...)})
	return err
}

func openOurs(forgetful bool) func(urls []string) (Client, error) {
	return func(urls []string) (Client, error) {
		c, err := redlock.New(context.Background(), redlock.Config{Nodes: redlock.Nodes(urls...), Forgetful: forgetful})
		if err != nil {
			return nil, err
		}
		return client{peers.ClientOf[redlock.Lock](c)}, nil
	}
}

func openBaseline(urls []string) (Client, error) {
	c, err := bench.OpenRueidis(bench.RueidisConfig{Nodes: urls})
	if err != nil {
		return nil, err
	}
	return client{peers.ClientOf[bench.RueidisLease](c)}, nil
}

func openPeer(name string) func(urls []string) (Client, error) {
	i := slices.IndexFunc(peers.All, func(p peers.Peer) bool { return p.Name == name })
	return func(urls []string) (Client, error) {
		c, err := peers.All[i].Client(load.Settings{URLs: urls})
		return client{c}, err
	}
}

// client is an implementation's client, whose locks can be extended if the
// implementation extends any.
type client struct{ peers.Client }

// TryAcquire makes one try.
func (c client) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	return lockOf(c.Client.TryAcquire(ctx, resource, ttl))
}

// Acquire tries again as the implementation does, until ctx ends.
func (c client) Acquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	return lockOf(c.Client.Acquire(ctx, resource, ttl))
}

// Close closes the client.
func (c client) Close() { _ = c.Client.Close(context.Background()) }

func lockOf(lease bench.Lease, err error) (Lock, error) {
	switch l := lease.(type) {
	case redlock.Lock:
		return &ourLock{l}, err
	case Lock:
		return l, err
	}
	return lasting{lease}, err
}

// ourLock keeps what an extension returns.
type ourLock struct{ redlock.Lock }

// Extend asks for another TTL.
func (l *ourLock) Extend(ctx context.Context, ttl time.Duration) error {
	longer, err := l.Lock.Extend(ctx, ttl)
	if err == nil {
		l.Lock = longer
	}
	return err
}

// lasting is a lock that cannot be extended: see Subject.Extends.
type lasting struct{ bench.Lease }

// Extend panics.
func (lasting) Extend(context.Context, time.Duration) error {
	panic("trial: it does not extend")
}
