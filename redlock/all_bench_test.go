package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// Sixteen clients lock three of ten resources at a time: together, by
// All, or one after another in the order of their names, which is what
// a program does without it. An operation is a grant of all three and its
// release.
func BenchmarkThreeOfTen(b *testing.B) {
	servers := redistest.Servers(b, 5)
	for _, hold := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
		for name, lock := range map[string]func(context.Context, *redlock.Client, []string) (func(), error){
			"together": together, "ordered": ordered,
		} {
			b.Run(fmt.Sprintf("%s/hold=%v", name, hold), func(b *testing.B) {
				var clients []*redlock.Client
				for range 16 {
					c, err := redlock.New(b.Context(), redlock.Config{
						Nodes: redlock.Nodes(redistest.URLs(servers)...), Forgetful: true, NodeTimeout: time.Second,
					})
					if err != nil {
						b.Fatal(err)
					}
					defer c.Close(context.Background())
					if err := c.Ready(b.Context()); err != nil {
						b.Fatal(err)
					}
					clients = append(clients, c)
				}
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				var wg sync.WaitGroup
				for i, c := range clients {
					random := rand.New(rand.NewPCG(1, uint64(i)))
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							var want []string
							for _, k := range random.Perm(10)[:3] {
								want = append(want, fmt.Sprint("resource", k))
							}
							release, err := lock(b.Context(), c, want)
							if err != nil {
								b.Error(err)
								return
							}
							if hold > 0 {
								time.Sleep(hold)
							}
							release()
						}
					})
				}
				wg.Wait()
				var attempts uint64
				for _, c := range clients {
					attempts += c.Stats().Attempts.Total()
				}
				b.ReportMetric(float64(attempts)/float64(b.N), "attempts/grant")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "grants/s")
			})
		}
	}
}

func together(ctx context.Context, c *redlock.Client, resources []string) (func(), error) {
	lock, err := c.All(resources...).Acquire(ctx, 10*time.Second)
	return func() { _ = lock.Release(ctx) }, err
}

func ordered(ctx context.Context, c *redlock.Client, resources []string) (func(), error) {
	slices.Sort(resources)
	var locks []redlock.Lock
	release := func() {
		for _, lock := range locks {
			_ = lock.Release(ctx)
		}
	}
	for _, resource := range resources {
		lock, err := c.Acquire(ctx, resource, 10*time.Second)
		if err != nil {
			release()
			return nil, err
		}
		locks = append(locks, lock)
	}
	return release, nil
}
