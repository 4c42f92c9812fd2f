package compare

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/redlock"
)

// A Peer is one implementation with one set of options.
type Peer struct {
	// Name is its name in flags, tables and the chart.
	Name string
	// Modules are the paths of the modules whose versions the report shows.
	Modules []string
	// About describes it and its options in a sentence, for the report.
	About string
	// Ours marks this module's own.
	Ours bool
	// Variant marks one that differs little from another, and is measured over
	// one network only.
	Variant bool
	// MostNodes bounds the masters that it can use. If zero, any number.
	MostNodes int

	open func(urls []string) (Pairer, error)
}

// Names of the peers that reports refer to.
const (
	Ours       = "redlock"
	Portable   = "redlock-portable"
	Default    = "rueidis"
	DefaultAll = "rueidis-all"
	Tuned      = "rueidis-tuned"
	Valkey     = "valkey-tuned"
	Async      = "goredis-async"
	Duplex     = "goredis-duplex"
	Blocking   = "goredis-blocking"
	Redsync    = "redsync"
)

const (
	ownModule     = "github.com/redmux/redmux"
	rueidisModule = "github.com/redis/rueidis"
	valkeyModule  = "github.com/valkey-io/valkey-go"
	redsyncModule = "github.com/go-redsync/redsync/v4"
	goredisModule = "github.com/redis/go-redis/v9"
	compatModule  = "github.com/redis/rueidis/rueidiscompat"
	bsmModule     = "github.com/bsm/redislock"
)

// Peers are all peers, in the order in which they are shown.
var Peers = []Peer{
	{
		Name: Ours, Ours: true, Modules: []string{ownModule},
		About: "this module with default options",
		open:  openOurs(redlock.Config{}),
	},
	{
		Name: Portable, Ours: true, Modules: []string{ownModule},
		About: "the same on the path that it takes with NetDial and on systems other than Linux (Portable: true)",
		open:  openOurs(redlock.Config{Portable: true}),
	},
	{
		Name: Default, Modules: []string{rueidisModule},
		About: "the Redlock of package bench on rueidis with default options, returning at the quorum",
		open:  openRueidis(Default),
	},
	{
		Name: DefaultAll, Variant: true, Modules: []string{rueidisModule},
		About: "the same, but every call waits for all masters",
		open:  openRueidis(DefaultAll),
	},
	{
		Name: Tuned, Modules: []string{rueidisModule},
		About: "the same as rueidis with the best tuning found (one connection per master, 100 µs of flush delay, no caching)",
		open:  openRueidis(Tuned),
	},
	{
		Name: Valkey, Modules: []string{valkeyModule},
		About: "the same as rueidis-tuned on valkey-go, with the same options",
		open:  openOn(dialValkey),
	},
	{
		Name: Async, Modules: []string{goredisModule},
		About: "a Redlock on go-redis' asynchronous automatic pipelining: commands are queued for all masters, then replies are waited for until the outcome is decided",
		open:  openGoredisAsync(false),
	},
	{
		Name: Duplex, Modules: []string{goredisModule},
		About: "the same with FullDuplex",
		open:  openGoredisAsync(true),
	},
	{
		Name: Blocking, Modules: []string{goredisModule},
		About: "the same as rueidis on go-redis' blocking automatic pipelining, which asks each master from a goroutine",
		open:  openOn(DialGoredis),
	},
	{
		Name: Redsync, Modules: []string{redsyncModule, goredisModule},
		About: "redsync on go-redis, both with default options (go-redis: 10 connections per master and CPU)",
		open:  openRedsyncGoredis(),
	},
	{
		Name: "redsync-failfast", Variant: true, Modules: []string{redsyncModule, goredisModule},
		About: "the same with WithFailFast(true): it returns at the quorum",
		open:  openRedsyncGoredis(failFast),
	},
	{
		Name: "redsync-rueidis", Variant: true, Modules: []string{redsyncModule, rueidisModule, compatModule},
		About: "redsync on rueidis by its own adapter, all with default options",
		open:  openRedsyncRueidis(),
	},
	{
		Name: "redislock", Modules: []string{bsmModule, goredisModule}, MostNodes: 1,
		About: "bsm/redislock on go-redis, default options; it knows one master only",
		open:  openRedislock,
	},
}

// Find returns the named peer.
func Find(name string) (Peer, error) {
	i := slices.IndexFunc(Peers, func(p Peer) bool { return p.Name == name })
	if i < 0 {
		return Peer{}, fmt.Errorf("compare: no peer is called %q", name)
	}
	return Peers[i], nil
}

// Fits reports whether the peer can work on that many masters.
func (p Peer) Fits(nodes int) bool { return p.MostNodes == 0 || nodes <= p.MostNodes }

// Open connects the peer to the masters.
func (p Peer) Open(urls []string) (Pairer, error) { return p.open(urls) }

// A Pairer acquires and releases. All callers share it.
type Pairer interface {
	// Pair acquires a resource in one try and releases it, and returns how long
	// the acquisition took. In between it calls held, unless that is nil. Kind
	// tells errors of acquiring and of releasing apart.
	Pair(ctx context.Context, resource string, ttl time.Duration, held func()) (acquired time.Duration, err error)
	// Close closes the peer.
	Close(ctx context.Context) error
}

// locker and lease are the part of bench.Locker that a pair needs.
// redlock.Client and bench.Rueidis satisfy it as they are.
type (
	locker[L lease] interface {
		TryAcquire(ctx context.Context, resource string, ttl time.Duration) (L, error)
		Close(ctx context.Context) error
	}
	lease interface {
		Release(ctx context.Context) error
	}
)

var (
	_ locker[redlock.Lock]       = (*redlock.Client)(nil)
	_ locker[bench.RueidisLease] = (*bench.Rueidis)(nil)
)

// pairer makes a Pairer of a locker. It is generic so that a lease that is a
// plain value never lies in an interface, which would allocate.
type pairer[L lease] struct{ locker[L] }

// Pair is one TryAcquire and one Release.
func (p pairer[L]) Pair(ctx context.Context, resource string, ttl time.Duration, held func()) (time.Duration, error) {
	start := time.Now()
	lease, err := p.TryAcquire(ctx, resource, ttl)
	acquired := time.Since(start)
	if err != nil {
		return acquired, &acquireError{err}
	}
	if held != nil {
		held()
	}
	if err := lease.Release(ctx); err != nil {
		return acquired, &releaseError{err}
	}
	return acquired, nil
}

// PairerOf makes a Pairer of an implementation that lives outside this package.
func PairerOf[L lease](l locker[L]) Pairer { return pairer[L]{l} }

// With returns the peer with a function that connects it, for one that lives
// outside this package.
func (p Peer) With(open func(urls []string) (Pairer, error)) Peer {
	p.open = open
	return p
}
