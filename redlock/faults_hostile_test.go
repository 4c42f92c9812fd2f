package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// A node that lies in any of these ways gets no vote, costs the other four
// nothing, and needs little memory (R16, R17, R18). The test itself shows that
// the process survives.
func TestFaultHostileNode_R16_R18(t *testing.T) {
	f := newFleet(t, 4)
	for _, h := range append(redistest.HostileReplies[:len(redistest.HostileReplies):len(redistest.HostileReplies)],
		redistest.SurplusReplies...) {
		t.Run(h.Name, func(t *testing.T) {
			f := &fleet{t, f.servers}
			node := startHostile(t, h)
			memory := watchMemory(t)
			c := f.client(redlock.Config{
				Nodes: redlock.Nodes(append(redistest.URLs(f.servers), node.URL())...), NodeTimeout: unhurried,
			})
			for i := range f.servers { // an earlier caller gets no quorum at once, many times within a moment
				f.state(c, i, inTheEnd, "up")
			}
			l := f.load(c, workload{callers: 8, fresh: true})
			time.Sleep(25 * time.Millisecond)
			l.until(50, inTheEnd)
			for end := l.now() + inTheEnd; node.Calls("SET") == 0 && !h.Early && l.now() < end; { // it may be the last to connect
				time.Sleep(time.Millisecond)
			}
			l.end()
			l.fails(fewFailures, redlock.ErrNoQuorum)
			peak := memory()
			t.Logf("%d grants, %d SETs heard, peak of the heap %d KiB", l.granted(0, l.now()), node.Calls("SET"), peak>>10)
			if peak > 64<<20 {
				t.Errorf("R18: %d MiB of heap in use", peak>>20)
			}
			if node.Calls("SET") == 0 && !h.Early {
				t.Error("the node was asked nothing, so that it could not lie")
			}
			if err := c.Close(context.Background()); err != nil {
				t.Errorf("Close: %v", err)
			}
			f.noOrphans(inTheEnd)
		})
	}
}

// If a forged vote would complete the quorum, since two of the four honest
// nodes are stopped, there is no grant (R17).
func TestFaultHostileVoteCompletesNoQuorum_R17(t *testing.T) {
	redistest.Alone(t)
	f := newFleet(t, 4)
	f.stop(2, 3)
	defer f.continues(2, 3)
	gate := make(chan struct{}, 4) // the most at once
	var wg sync.WaitGroup
	asked := new(atomic.Int64)
	for i, h := range redistest.HostileReplies {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			f.forge(h, fmt.Sprintf("forged:%d:", i), asked)
		})
	}
	wg.Wait()
	if n := asked.Load(); n < int64(len(redistest.HostileReplies)) {
		t.Errorf("only %d SETs reached the hostile nodes", n)
	}
	eventually(t, inTheEnd, func() error {
		if left := append(f.keys(0, nil), f.keys(1, nil)...); len(left) > 0 {
			return fmt.Errorf("keys remain: %q", left)
		}
		return nil
	})
}

func (f *fleet) forge(h redistest.Hostile, prefix string, asked *atomic.Int64) {
	node := startHostile(f, h)
	// The hostile node comes first, so that a confusion of nodes would show.
	c, err := redlock.New(context.Background(), redlock.Config{
		Nodes: redlock.Nodes(append([]string{node.URL()}, redistest.URLs(f.servers)...)...), Prefix: prefix, NodeTimeout: 20 * time.Millisecond,
		Forgetful: true,
	})
	if err != nil {
		f.Error(err)
		return
	}
	defer c.Close(context.Background())
	// One at a time: a surplus answer that meets another attempt is that node's
	// vote on it, which it could have given anyway (R16: a lying node forges
	// its own vote).
	for n := range 8 {
		_, err := c.TryAcquire(context.Background(), fmt.Sprint(n), time.Minute)
		if err == nil {
			f.Errorf("%s: granted by two honest nodes and a liar", h.Name)
		}
		// A null is a refusal, and may be honest.
		if !errors.Is(err, redlock.ErrNoQuorum) && !(errors.Is(err, redlock.ErrHeld) && strings.HasPrefix(h.Name, "null")) {
			f.Errorf("%s: %v", h.Name, err)
		}
	}
	asked.Add(int64(node.Calls("SET")))
	if h.Early {
		asked.Add(1)
	}
}

func startHostile(tb testing.TB, h redistest.Hostile) *redistest.HostileNode {
	tb.Helper()
	node, err := redistest.StartHostile(h, true)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { node.Close() })
	return node
}

// watchMemory samples the heap in use until the returned function is called,
// which returns the maximum.
func watchMemory(tb testing.TB) (peak func() uint64) {
	tb.Helper()
	runtime.GC() // frees what earlier tests left
	var most uint64
	sample := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				sample()
			case <-end:
				return
			}
		}
	}()
	return sync.OnceValue(func() uint64 {
		close(end)
		<-ended
		sample()
		return most
	})
}
