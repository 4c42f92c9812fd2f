package trial

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredislib "github.com/redis/go-redis/v9"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// A Subject is one implementation with one set of options.
type Subject struct {
	Name string
	// About says in a sentence what was set.
	About string
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

// Subjects are all that are tried.
var Subjects = []Subject{
	{
		Name: "redlock", Ours: true, Nodes: 5, Extends: true, prepare: initOurs, open: openOurs(false),
		About: "this module with default options, on masters that were opened with `redlock init`",
	},
	{
		Name: "redlock-forgetful", Ours: true, Nodes: 5, Extends: true, open: openOurs(true),
		About: "this module with `Forgetful`, which switches the delayed restart off",
	},
	{
		Name: "rueidis", Nodes: 5, open: openBench(bench.RueidisConfig{}),
		About: "the Redlock of package bench on rueidis with default options, returning at the quorum; it knows no extension",
	},
	{
		Name: "goredis-blocking", Nodes: 5, open: openBench(bench.RueidisConfig{Dial: compare.DialGoredis}),
		About: "the same on go-redis' blocking automatic pipelining",
	},
	{
		Name: "redsync", Nodes: 5, Extends: true, open: openRedsync(goredislib.Options{}),
		About: "redsync on go-redis, both with default options",
	},
	{
		Name: "redsync-tuned", Nodes: 5, Extends: true,
		open:  openRedsync(goredislib.Options{ContextTimeoutEnabled: true}, redsync.WithFailFast(true)),
		About: "the same with redsync's `WithFailFast(true)` and go-redis' `ContextTimeoutEnabled`, so that its timeouts are kept",
	},
	{
		Name: "redislock", Nodes: 1, Extends: true, open: openRedislock,
		About: "bsm/redislock on go-redis, both with default options; it uses one master, so it does not claim to outlive it",
	},
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
		return ours{c}, nil
	}
}

type ours struct{ *redlock.Client }

type ourLock struct{ redlock.Lock }

func (c ours) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	l, err := c.Client.TryAcquire(ctx, resource, ttl)
	return &ourLock{l}, err
}

func (c ours) Acquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	l, err := c.Client.Acquire(ctx, resource, ttl)
	return &ourLock{l}, err
}

func (c ours) Close() { _ = c.Client.Close(context.Background()) }

func (l *ourLock) Extend(ctx context.Context, ttl time.Duration) error {
	longer, err := l.Lock.Extend(ctx, ttl)
	if err == nil {
		l.Lock = longer
	}
	return err
}

// openBench opens the Redlock of package bench.
func openBench(config bench.RueidisConfig) func(urls []string) (Client, error) {
	return func(urls []string) (Client, error) {
		config := config
		config.Nodes = urls
		c, err := bench.OpenRueidis(config)
		if err != nil {
			return nil, err
		}
		return onRueidis{c}, nil
	}
}

type onRueidis struct{ *bench.Rueidis }

type rueidisLock struct{ bench.RueidisLease }

func (c onRueidis) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	l, err := c.Rueidis.TryAcquire(ctx, resource, ttl)
	return rueidisLock{l}, err
}

func (c onRueidis) Acquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	l, err := c.Rueidis.Acquire(ctx, resource, ttl)
	return rueidisLock{l}, err
}

func (c onRueidis) Close() { _ = c.Rueidis.Close(context.Background()) }

// Extend is not there: see Subject.Extends.
func (rueidisLock) Extend(context.Context, time.Duration) error {
	panic("trial: rueidis does not extend")
}

// openRedsync uses go-redis with the given options.
func openRedsync(with goredislib.Options, options ...redsync.Option) func([]string) (Client, error) {
	return func(urls []string) (Client, error) {
		r, closeClients, err := compare.NewRedsync(urls, with)
		return onRedsync{r, options, closeClients}, err
	}
}

type onRedsync struct {
	redsync *redsync.Redsync
	options []redsync.Option
	close   func()
}

type redsyncLock struct {
	*redsync.Mutex
	locker onRedsync
}

// mutex makes a Mutex per lock, as redsync's examples do.
func (c onRedsync) mutex(resource string, ttl time.Duration, more ...redsync.Option) *redsync.Mutex {
	all := append([]redsync.Option{redsync.WithExpiry(ttl)}, c.options...)
	return c.redsync.NewMutex(resource, append(all, more...)...)
}

func (c onRedsync) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	m := c.mutex(resource, ttl)
	return redsyncLock{m, c}, m.TryLockContext(ctx)
}

func (c onRedsync) Acquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	m := c.mutex(resource, ttl)
	return redsyncLock{m, c}, m.LockContext(ctx)
}

func (c onRedsync) Close() { c.close() }

// Extend extends by the TTL that the lock was made with; redsync takes no
// other.
func (l redsyncLock) Extend(ctx context.Context, _ time.Duration) error {
	return compare.RedsyncError(l.ExtendContext(ctx))
}

func (l redsyncLock) Release(ctx context.Context) error {
	return compare.RedsyncError(l.UnlockContext(ctx))
}

func openRedislock(urls []string) (Client, error) {
	c, err := compare.GoredisClient(urls[0], goredislib.Options{})
	return onRedislock{redislock.New(c), c}, err
}

type onRedislock struct {
	locks  *redislock.Client
	client *goredislib.Client
}

// A redislockLock adds the end of validity, which redislock does not know. In
// its documentation the TTL counts from the call.
type redislockLock struct {
	*redislock.Lock
	until time.Time
}

func (c onRedislock) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	return c.obtain(ctx, resource, ttl, nil)
}

// Acquire retries every 100 ms, as redislock's example does.
func (c onRedislock) Acquire(ctx context.Context, resource string, ttl time.Duration) (Lock, error) {
	return c.obtain(ctx, resource, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
}

func (c onRedislock) obtain(ctx context.Context, resource string, ttl time.Duration, o *redislock.Options) (Lock, error) {
	start := time.Now()
	l, err := c.locks.Obtain(ctx, resource, ttl, o)
	return &redislockLock{l, start.Add(ttl)}, err
}

func (c onRedislock) Close() { _ = c.client.Close() }

func (l *redislockLock) Until() time.Time { return l.until }

func (l *redislockLock) Extend(ctx context.Context, ttl time.Duration) error {
	start := time.Now()
	err := l.Refresh(ctx, ttl, nil)
	if err == nil {
		l.until = start.Add(ttl)
	}
	return err
}
