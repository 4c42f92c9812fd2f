package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/resp"
)

// besideALiar opens a deployment of two real servers and a node in memory,
// which afterwards answers a script with a lie.
func (f *fleet) besideALiar(script string, lie func() []byte) redlock.Config {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	node := redistest.NewNode(redistest.NodeConfig{})
	node.Serve(l)
	f.Cleanup(func() { node.Close() })
	config := redlock.Config{Nodes: redlock.Nodes(append(redistest.URLs(f.servers), node.URL())...), MaxTTL: 2 * time.Second}
	if _, err := admin.Init(context.Background(), config); err != nil {
		f.Fatal(err)
	}
	node.Handle(func(_ int, args []string) ([]byte, bool) {
		return lie(), args[0] == "EVALSHA" && args[1] == redistest.SHA1(script)
	})
	return config
}

// Attempts with a number on free names succeed beside a node that lies about
// numbers, on real servers too (R33).
func TestFencedAttemptsBesideALiar_R33(t *testing.T) {
	f := newFleet(t, 2)
	var turn atomic.Int64
	config := f.besideALiar(lua.AcquireFenced, func() []byte {

		return []byte([]string{"*2\r\n:2\r\n:9007199254740991\r\n", "*2\r\n:3\r\n:0\r\n", fmt.Sprintf("*2\r\n:2\r\n:%d\r\n", time.Now().Add(time.Hour).UnixMicro())}[turn.Add(1)%3])
	})
	config.Fenced = true
	clients := []*redlock.Client{f.client(config), f.client(config), f.client(config)}
	for _, c := range clients {
		if err := c.Ready(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	failed, causes := 0, map[string]int{}
	const attempts = 600
	for i := range attempts {
		lock, err := clients[i%3].TryAcquire(context.Background(), "free:"+strconv.Itoa(i%20), time.Second)
		if err != nil {
			failed++
			causes[err.Error()]++
			continue
		}
		_ = lock.Release(context.Background())
	}
	t.Logf("%d of %d attempts failed: %v", failed, attempts, causes)
	if failed > attempts/100 {
		t.Errorf("%d of %d attempts on free names failed", failed, attempts)
	}
}

// Callers of Fair that a quorum has let in are served in their order beside a
// node that names tickets beyond all others (R33).
func TestFairBesideALiar_R33(t *testing.T) {
	f := newFleet(t, 2)
	config := f.besideALiar(lua.AskFair, func() []byte { return resp.AppendBulkString(nil, "3 9007199254740990") })
	c := f.client(config)
	ctx := context.Background()
	held, err := c.Fair("f").Acquire(ctx, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	hold, kept := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var served []int
	var wg sync.WaitGroup
	go func() {
		defer close(kept)
		for {
			select {
			case <-hold:
				return
			case <-time.After(300 * time.Millisecond):
				if longer, err := held.Extend(ctx, 2*time.Second); err == nil {
					held = longer
				}
			}
		}
	}()
	for i := range 20 {
		wg.Go(func() {
			lock, err := c.Fair("f").Acquire(ctx, 2*time.Second)
			if err != nil {
				if !errors.Is(err, redlock.ErrHeld) {
					t.Error(err)
				}
				return
			}
			mu.Lock()
			served = append(served, i)
			mu.Unlock()
			_ = lock.Release(ctx)
		})
		time.Sleep(100 * time.Millisecond)
	}
	close(hold)
	<-kept
	_ = held.Release(ctx)
	wg.Wait()
	pairs, wrong := 0, 0
	for i := range served {
		for j := i + 1; j < len(served); j++ {
			if pairs++; served[i] > served[j] {
				wrong++
			}
		}
	}
	t.Logf("%d of %d pairs in another order", wrong, pairs)
	if !slices.IsSorted(served) {
		t.Errorf("served in the order %v", served)
	}
}
