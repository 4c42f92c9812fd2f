package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// Servers with an idle timeout close all connections at once. The next call
// waits until they are back, and from then on they are probed in time (R26).
func TestFaultIdleTimeout_R26(t *testing.T) {
	for name, over := range map[string]redistest.Option{"tcp": redistest.OverTCP, "tls": redistest.OverTLS} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 3, over)
			c := f.client(redlock.Config{NodeTimeout: unhurried})
			f.allUp(c, inTheEnd)
			for i := range f.servers {
				f.must(i, "CONFIG", "SET", "timeout", "1")
			}
			deaths := func() (all []int) {
				for _, n := range c.Nodes() {
					all = append(all, n.Connects-1)
				}
				return all
			}
			eventually(t, inTheEnd, func() error {
				for _, n := range deaths() {
					if n == 0 {
						return fmt.Errorf("not all connections were closed, and made again: %v", deaths())
					}
				}
				return nil
			})
			for round := range 4 {
				if lock, err := c.TryAcquire(context.Background(), fmt.Sprint("r", round), time.Minute); err != nil {
					t.Errorf("round %d: %v", round, err)
				} else if err := lock.Release(context.Background()); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
				time.Sleep(2200 * time.Millisecond)
			}
			for i, n := range deaths() {
				if n > 2 { // the probe of a starved client may be late once
					t.Errorf("node %d: %d connections were closed for their idleness", i, n)
				}
			}
		})
	}
}

// The time between probes never exceeds the configured one, whatever was
// learned.
func TestFaultProbeAfter(t *testing.T) {
	f := newFleet(t, 1)
	c := f.client(redlock.Config{Connect: redlock.Connect{ProbeAfter: 20 * time.Millisecond}})
	f.allUp(c, inTheEnd)
	eventually(t, inTheEnd, func() error {
		if n := c.Nodes()[0]; n.Counts.Probes < 5 {
			return fmt.Errorf("%d probes", n.Counts.Probes)
		}
		return nil
	})
	if _, err := redlock.New(t.Context(), redlock.Config{Nodes: redlock.Nodes(redistest.URLs(f.servers)...), Connect: redlock.Connect{ProbeAfter: -1}}); !errors.Is(err, redlock.ErrConfig) {
		t.Errorf("New with a negative ProbeAfter: %v", err)
	}
}
