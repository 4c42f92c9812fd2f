package redlock_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// Attempts that hang until their short timeout count as waiting, since there
// must always be one in progress when a stopped node continues. However short
// the timeout is, the connects stay within 75 a minute: fourteen at once, and
// then one a second (R26).
func TestFaultConnectsToASilentListener_R26(t *testing.T) {
	f := newFleet(t, 4, redistest.OverTCP)
	var accepted atomic.Int64
	addr := listenSilently(t, &accepted)
	begun := time.Now()
	c := f.client(redlock.Config{ // the other four may be slow
		Nodes: redlock.Nodes(append(redistest.URLs(f.servers), "redis://"+addr+"?dial_timeout=20ms")...), NodeTimeout: unhurried,
	})
	for i := range f.servers {
		f.state(c, i, inTheEnd, "up")
	}
	l := f.load(c, workload{callers: 4})
	time.Sleep(time.Until(begun.Add(2 * time.Second)))
	made, lasted := accepted.Load(), time.Since(begun)
	t.Logf("%d connects within %v: %v", made, lasted, c.Nodes()[4].Err)
	if most := 14 + int64(1.2*lasted.Seconds()); made > most || made < 4 {
		t.Errorf("R26: %d connects within %v, at most %d are allowed", made, lasted, most)
	}
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	f.noOrphans(unprompted)
}

// listenSilently accepts connections and input, and answers nothing.
func listenSilently(t *testing.T, accepted *atomic.Int64) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			all.Go(func() {
				_, _ = io.Copy(io.Discard, nc) // until the client closes it
				_ = nc.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	return listener.Addr().String()
}
