package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// A distant node that refuses releases is asked again and again on the same
// connection (R8). Each answer takes its round trip, which does not count as
// silence: the connection lives (R26).
func TestFaultDebtsOfADistantNode_R8_R26(t *testing.T) {
	f := newFleet(t, 3)
	bestOf(t, func() error { return f.oweFromAfar() })
}

// oweFromAfar returns what was wrong with the distant node's connection.
func (f *fleet) oweFromAfar() error {
	proxies := redistest.Proxies(f, f.servers[:1])
	c := f.client(redlock.Config{Nodes: redlock.Nodes(append(redistest.URLs(f.servers[1:]), proxies[0].URL())...)})
	f.allUp(c, inTheEnd)
	proxies[0].Latency(10*time.Millisecond, 10*time.Millisecond)
	var locks []redlock.Lock
	for i := range 50 {
		locks = append(locks, acquired(f, c, fmt.Sprint("far:", i), time.Minute))
	}
	time.Sleep(1200 * time.Millisecond) // longer than any bound on silence
	f.each([]int{0}, refuseWrites("1"))
	for _, lock := range locks {
		// The answers of the two others may be late on a busy machine; the
		// release is sent all the same.
		if err := lock.Release(context.Background()); err != nil && !errors.Is(err, multiplex.ErrTimeout) {
			f.Fatal(err)
		}
		time.Sleep(3 * time.Millisecond) // so that their next tries differ in time
	}
	time.Sleep(1600 * time.Millisecond) // by now the tries are a second apart
	before := c.Nodes()[2]
	f.each([]int{0}, refuseWrites("0"))
	paid := f.noOrphans(inTheEnd)
	f.Logf("no orphan after %v", paid)
	if before.Connects != 1 || before.State != "up" || before.Debts != len(locks) {
		return fmt.Errorf("the node is %s after %d connects, with %d debts: %v", before.State, before.Connects, before.Debts, before.Err)
	}
	if n := c.Nodes()[2]; n.Connects != 1 || paid > 1500*time.Millisecond {
		return fmt.Errorf("the node was connected %d times, and paid after %v", n.Connects, paid)
	}
	return nil
}
