package redlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// A node that is far away and refuses releases is asked again and again on the same connection (R8). Each answer takes its
// round trip, and that is no silence: the connection lives (R26).
func TestFaultDebtsOfADistantNode_R8_R26(t *testing.T) {
	f := newFleet(t, 3)
	proxies := redistest.Proxies(t, f.servers[:1])
	c := f.client(redlock.Config{Nodes: append(redistest.URLs(f.servers[1:]), proxies[0].URL())})
	f.allUp(c, 5*time.Second)
	proxies[0].Latency(10*time.Millisecond, 10*time.Millisecond)
	var locks []redlock.Lock
	for i := range 50 {
		locks = append(locks, acquired(t, c, fmt.Sprint("far:", i), time.Minute))
	}
	time.Sleep(1200 * time.Millisecond) // longer than any bound on silence
	f.each([]int{0}, refuseWrites("1"))
	for _, lock := range locks {
		if err := lock.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Millisecond) // so that their next tries do not fall together
	}
	time.Sleep(1600 * time.Millisecond) // the tries are a second apart by now
	if n := c.Nodes()[2]; n.Connects != 1 || n.State != "up" || n.Debts != len(locks) {
		t.Errorf("the node is %s after %d connects, with %d debts: %v", n.State, n.Connects, n.Debts, n.Err)
	}
	f.each([]int{0}, refuseWrites("0"))
	t.Logf("no orphan after %v", f.noOrphans(1500*time.Millisecond))
	if n := c.Nodes()[2]; n.Connects != 1 {
		t.Errorf("the node was connected %d times", n.Connects)
	}
}
