package trial

import (
	"cmp"
	"context"
	"crypto/tls"
	"flag"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench/compare/peers"
	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/proof/failover"
)

var failovers = flag.Int("failover.count", 0, "how many failovers TestPeersFailOver makes for each library; with 0 it is skipped")

// What others make of a primary with two replicas that fails over, in the trial
// that finds nothing with redlock (proof/failover). The figures are in
// docs/internals/peers.md.
func TestPeersFailOver(t *testing.T) {
	if *failovers == 0 {
		t.Skip("skipped: -failover.count is 0")
	}
	redistest.Require(t)
	for _, name := range []string{"redislock", "redsync", "rueidislock"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := failover.NewSentinels(t, 1, false, failover.SentinelKinds...)
			trial := failover.Trial{
				Nodes: []failover.Node{node}, MaxTTL: failoverTTL, Failovers: *failovers, Rest: 3 * time.Second, Log: t.Logf,
				Open: func(w *failover.Way) (failover.Client, error) {
					if name == "rueidislock" {
						return newContextual(node.URL(), w)
					}
					c, err := peers.BehindSentinels(name, node.URL(), w.Dial)
					return peer{c}, err
				},
			}
			report, err := trial.Run()
			require.NoError(t, err)
			for _, overlap := range report.Overlaps {
				t.Log(overlap)
			}
			median, _, longest := failover.Quantiles(report.Pauses)
			t.Logf("%d failovers, %d spells, %d overlaps; no new lock for %v in the median, %v at most",
				report.Failovers, report.Spells, len(report.Overlaps), median, longest)
		})
	}
}

const failoverTTL = 4 * time.Second

// peer is a library in the trial.
type peer struct{ peers.Client }

// Acquire tries until ctx ends.
func (p peer) Acquire(ctx context.Context, resource string, ttl time.Duration) (failover.Lock, error) {
	lease, err := p.Client.Acquire(ctx, resource, ttl)
	if err != nil {
		return nil, err
	}
	return lease.(peers.Extender), nil
}

// Close closes the client.
func (p peer) Close() { _ = p.Client.Close(context.Background()) }

// contextual is rueidislock, whose locks renew themselves and end with a
// context.
type contextual struct{ rueidislock.Locker }

func newContextual(url string, w *failover.Way) (failover.Client, error) {
	e, err := conn.ParseURL(url)
	if err != nil {
		return nil, err
	}
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		KeyValidity: failoverTTL,
		ClientOption: rueidis.ClientOption{
			InitAddress: e.Seeds.Addrs, Sentinel: rueidis.SentinelOption{MasterSet: e.Seeds.Master},
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return w.Dial(ctx, "tcp", addr)
			},
		},
	})
	return contextual{l}, err
}

// Acquire waits until ctx ends. The lock outlives that.
func (c contextual) Acquire(ctx context.Context, resource string, _ time.Duration) (failover.Lock, error) {
	outer, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, cancel)
	inner, release, err := c.WithContext(outer, resource)
	if err != nil || !stop() {
		cancel()
		return nil, cmp.Or(err, ctx.Err())
	}
	l := &contextualLock{inner: inner, release: func() { release(); cancel() }}
	context.AfterFunc(inner, func() { l.ended.Store(time.Now().UnixNano()) })
	return l, nil
}

type contextualLock struct {
	inner   context.Context
	release func()
	ended   atomic.Int64
}

// Context ends with the lock.
func (l *contextualLock) Context() context.Context { return l.inner }

// Until returns when its context ended, or a later time than now.
func (l *contextualLock) Until() time.Time {
	if at := l.ended.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Now().Add(failoverTTL)
}

// Extend reports whether it is still held.
func (l *contextualLock) Extend(context.Context, time.Duration) error { return l.inner.Err() }

// Release releases it.
func (l *contextualLock) Release(context.Context) error {
	l.release()
	return nil
}
