package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// A fault of one of five nodes, or of the way to it, costs the other four
// nothing, leaves no key, and is over soon after its end (R5, R8, R16, R26).
func TestFaultOfOneNode_R5_R26(t *testing.T) {
	f := newFleet(t, 5, redistest.OverTCP)
	p := redistest.Proxies(t, f.servers[:1])[0]
	drip := func(d redistest.Direction) (begin, end func()) {
		return func() {
				p.Window(d, 2048) // what the wire has taken still arrives slowly after the end
				p.Drip(d, 100*time.Microsecond)
			}, func() {
				p.Drip(d, 0)
				p.Window(d, 0)
			}
	}
	dripUp, dripUpEnds := drip(redistest.Up)
	dripDown, dripDownEnds := drip(redistest.Down)
	c := f.client(redlock.Config{Nodes: redlock.Nodes(append([]string{p.URL()}, redistest.URLs(f.servers[1:])...)...)})
	f.allUp(c, inTheEnd)
	must := func(do func() error) func() {
		return func() {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
	}
	stopped, killed := f.servers[1], f.servers[2]
	cases := []struct {
		name         string
		node         int // 0 has the proxy
		begin, end   func()
		noticed      bool // the connection must die
		recoversWith time.Duration
	}{
		{"stopped", 1, must(stopped.Stop), must(stopped.Continue), true, 200 * time.Millisecond},
		{"killed, and restarted empty", 2, must(killed.Kill), must(killed.Restart), true, 1200 * time.Millisecond},
		{"silent both ways", 0, func() { p.Pause(redistest.Both) }, func() { p.Resume(redistest.Both) }, true, 500 * time.Millisecond},
		{"silent up", 0, func() { p.Pause(redistest.Up) }, func() { p.Resume(redistest.Up) }, true, 500 * time.Millisecond},
		{"silent down", 0, func() { p.Pause(redistest.Down) }, func() { p.Resume(redistest.Down) }, true, 500 * time.Millisecond},
		{"half-open", 0, p.HalfOpen, func() {}, true, 1200 * time.Millisecond},
		{"reset", 0, p.Reset, func() {}, true, 1200 * time.Millisecond},
		{"refused", 0, func() { p.Refuse(true); p.Reset() }, func() { p.Refuse(false) }, true, 1200 * time.Millisecond},
		{"drip up", 0, dripUp, dripUpEnds, false, 1200 * time.Millisecond},
		{"drip down", 0, dripDown, dripDownEnds, false, 1200 * time.Millisecond},
		{"replies split everywhere", 0, func() { p.Chunk(redistest.Down, 1) }, func() { p.Chunk(redistest.Down, 0) }, false, time.Second},
		{"slow", 0, func() { p.Latency(60*time.Millisecond, 0) }, func() { p.Latency(0, 0) }, false, time.Second},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			f := &fleet{t, f.servers}
			bestOf(t, func() error {
				l := f.load(c, workload{callers: 16, fresh: true})
				l.calm()
				time.Sleep(50 * time.Millisecond)
				connects := c.Nodes()[tt.node].Connects
				tt.begin()
				begin := l.now()
				if tt.noticed {
					eventually(t, inTheEnd, func() error {
						if n := c.Nodes()[tt.node]; n.State == "up" && n.Connects == connects {
							return errors.New("the fault was not noticed")
						}
						return nil
					})
				}
				time.Sleep(150 * time.Millisecond)
				end := l.now()
				tt.end()
				back := f.state(c, tt.node, inTheEnd, "up")
				l.until(100, inTheEnd)
				l.end()
				f.allUp(c, inTheEnd)
				f.noOrphans(unprompted)
				t.Logf("%d grants meanwhile; counts again %v after it was over", l.granted(begin, end), back)
				if l.granted(begin, end) == 0 {
					return errors.New("no grant meanwhile")
				}
				if back > timingSlack*tt.recoversWith {
					return fmt.Errorf("R26: it counted again only %v after it was over", back)
				}
				return l.fewFail(fewFailures, redlock.ErrNoQuorum)
			})
		})
	}
}

// A connection is cut after any number of bytes, in either direction: in the
// handshake, in a command, in a reply, in the fence or in the payment of debts.
// No other node is affected, it connects again, and nothing remains (R8, R16).
func TestFaultCutAfterByteN_R8_R16(t *testing.T) {
	f := newFleet(t, 5)
	var cuts []int64
	for n := int64(1); n < 8000; n += n/6 + 1 {
		cuts = append(cuts, n)
	}
	cuts = redistest.Few(cuts[len(cuts)/2:], cuts)
	gate := make(chan struct{}, 4) // the most at once
	var wg sync.WaitGroup
	var connects atomic.Int64
	for _, d := range []redistest.Direction{redistest.Up, redistest.Down} {
		for _, n := range cuts {
			gate <- struct{}{}
			wg.Go(func() {
				defer func() { <-gate }()
				connects.Add(int64(f.cutAfter(d, n)))
			})
		}
	}
	wg.Wait()
	t.Logf("%d cuts, %d connects", 2*len(cuts), connects.Load())
	f.noOrphans(unprompted)
}

// cutAfter uses a client of its own. Two connections of its first node are cut
// after that many bytes: the first that gets so far, and a later one.
func (f *fleet) cutAfter(d redistest.Direction, n int64) (connects int) {
	p, err := redistest.NewProxy(f.servers[0].URL())
	if err != nil {
		f.Error(err)
		return 0
	}
	defer p.Close()
	p.CutOnce(d, n)
	c, err := redlock.New(context.Background(), redlock.Config{
		Nodes: redlock.Nodes(append(redistest.URLs(f.servers[1:]), p.URL())...), Prefix: fmt.Sprintf("cut:%d:%d:", d, n),
		NodeTimeout: unhurried, Forgetful: true,
	})
	if err != nil {
		f.Error(err)
		return 0
	}
	defer c.Close(context.Background())
	l := f.load(c, workload{callers: 4, fresh: true})
	time.Sleep(40 * time.Millisecond)
	p.CutOnce(d, n)
	time.Sleep(60 * time.Millisecond)
	p.Cut(d, -1)
	l.end()
	l.fails(fewFailures, redlock.ErrNoQuorum)
	// A node that answers now has answered everything before. Otherwise a cut
	// that the client has yet to notice would make debts after this.
	answered := func() uint64 { n := c.Nodes()[4].Counts; return n.Granted + n.Refused + n.Late }
	last := time.Now()
	for before := answered(); ; {
		lock := acquired(f, c, "last", 30*time.Second) // a busy machine may stop this process for seconds
		if err := lock.Release(context.Background()); err != nil {
			f.Error(err)
		}
		node := c.Nodes()[4]
		if node.State == "up" && node.Debts == 0 && answered() > before {
			return node.Connects
		}
		if time.Since(last) > inTheEnd {
			f.Errorf("cut after %d bytes: the node is %s with %d debts: %v", n, node.State, node.Debts, node.Err)
			return node.Connects
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The bytes of the previous connection arrive after its successor has completed
// the handshake, fenced, paid and joined: the network held them back, not the
// server. If CLIENT KILL is forbidden the releases are repeated after 250 ms, 1
// s, 4 s, … (R8).
func TestFaultOldBytesArriveAfterTheNewConnection_R8(t *testing.T) {
	redistest.Alone(t)
	for name, without := range map[string]string{"fenced": "", "without CLIENT KILL": "+client|kill"} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 5)
			leastPrivilege(f, without)
			proxies := redistest.Proxies(t, f.servers[:1])
			c := f.client(redlock.Config{
				Nodes:    redlock.Nodes(append(redistest.URLs(f.servers[1:]), proxies[0].URL())...),
				Username: "redlock", Password: "secret of the test", Prefix: "lock:",
			})
			f.allUp(c, inTheEnd)
			var slow error
			nothing := 0
			bestOf(t, func() error {
				l := f.load(c, workload{callers: 64, fresh: true})
				time.Sleep(50 * time.Millisecond)
				proxies[0].Latency(500*time.Millisecond, 0) // for what is sent now
				f.state(c, 4, inTheEnd, "shed", "down", "dialing")
				proxies[0].Latency(0, 0) // for the next connection
				f.state(c, 4, inTheEnd, "up")
				l.end()
				late := false // a SET arrived late, to be undone
				for begun := time.Now(); time.Since(begun) < 600*time.Millisecond; time.Sleep(2 * time.Millisecond) {
					late = late || f.orphans(nil) != nil
				}
				took := f.noOrphans(inTheEnd)
				t.Logf("late SETs: %t; no orphan after %v more", late, took)
				if without == "" { // otherwise its releases are repeated while a late SET can do harm
					f.allUp(c, inTheEnd)
				}
				if took > repeatedWithin {
					slow = fmt.Errorf("no orphan only after %v more", took)
					return slow
				}
				if without != "" && !late { // this try proves nothing, least of all that an earlier slow one was noise
					if nothing++; slow != nil || nothing < 4 {
						return errors.Join(errors.New("no SET came late"), slow)
					}
				}
				return l.fewFail(fewFailures, redlock.ErrNoQuorum)
			})
		})
	}
}

// repeatedWithin is how long the second repetition of a release, due after 1.25
// s, may take. The third comes after 5.25 s.
var repeatedWithin = min(timingSlack*2*time.Second, unprompted)
