package redlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// A network fault of one of five connections costs the other four nothing,
// leaves no key, and is over soon after its end (R5, R8, R16, R26).
func TestFaultNetworkOfOneNode_R5_R26(t *testing.T) {
	f := newFleet(t, 5)
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
	cases := []struct {
		name         string
		begin, end   func()
		noticed      bool // the connection must die
		recoversWith time.Duration
	}{
		{"silent both ways", func() { p.Pause(redistest.Both) }, func() { p.Resume(redistest.Both) }, true, 500 * time.Millisecond},
		{"silent up", func() { p.Pause(redistest.Up) }, func() { p.Resume(redistest.Up) }, true, 500 * time.Millisecond},
		{"silent down", func() { p.Pause(redistest.Down) }, func() { p.Resume(redistest.Down) }, true, 500 * time.Millisecond},
		{"half-open", p.HalfOpen, func() {}, true, 1200 * time.Millisecond},
		{"reset", p.Reset, func() {}, true, 1200 * time.Millisecond},
		{"refused", func() { p.Refuse(true); p.Reset() }, func() { p.Refuse(false) }, true, 1200 * time.Millisecond},
		{"drip up", dripUp, dripUpEnds, false, 1200 * time.Millisecond},
		{"drip down", dripDown, dripDownEnds, false, 1200 * time.Millisecond},
		{"replies split everywhere", func() { p.Chunk(redistest.Down, 1) }, func() { p.Chunk(redistest.Down, 0) }, false, time.Second},
		{"slow", func() { p.Latency(60*time.Millisecond, 0) }, func() { p.Latency(0, 0) }, false, time.Second},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			f := &fleet{t, f.servers}
			bestOf(t, func() error {
				l := f.load(c, workload{callers: 16, fresh: true})
				l.calm()
				time.Sleep(50 * time.Millisecond)
				connects := c.Nodes()[0].Connects
				tt.begin()
				begin := l.now()
				if tt.noticed {
					eventually(t, inTheEnd, func() error {
						if n := c.Nodes()[0]; n.State == "up" && n.Connects == connects {
							return errors.New("the fault was not noticed")
						}
						return nil
					})
				}
				time.Sleep(150 * time.Millisecond)
				end := l.now()
				tt.end()
				back := f.state(c, 0, inTheEnd, "up")
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
	if testing.Short() {
		cuts = cuts[len(cuts)/2:]
	}
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

// Three nodes over a bad network at once: attempts fail, granted locks are
// valid, and when it is over everything is as before (R7, R8, R12).
func TestFaultNetworkOfAMajority_R7_R8(t *testing.T) {
	f := newFleet(t, 5)
	proxies := redistest.Proxies(t, f.servers[:3])
	c := f.client(redlock.Config{Nodes: redlock.Nodes(append(redistest.URLs(f.servers[3:]), redistest.URLs(proxies)...)...)})
	f.allUp(c, inTheEnd)
	var inspected atomic.Int64
	l := f.load(c, workload{callers: 16, fresh: true, inspect: func(lock redlock.Lock) {
		inspected.Add(1)
		token := lock.Token()
		if n := f.on(lock.Resource(), string(token[:])); n < 3 && lock.Validity() > 0 {
			t.Errorf("a lock that was granted stands on %d of 5 servers", n)
		}
	}})
	for round := range 12 {
		p := proxies[round%3]
		switch round % 4 {
		case 0:
			for _, p := range proxies { // no quorum during that time
				p.Pause(redistest.Down)
				time.AfterFunc(100*time.Millisecond, func() { p.Resume(redistest.Down) })
			}
		case 1:
			p.CutOnce(redistest.Up, int64(3000+round*100))
		case 2:
			p.HalfOpen()
		case 3:
			p.Latency(30*time.Millisecond, 10*time.Millisecond)
			time.AfterFunc(150*time.Millisecond, func() { p.Latency(0, 0) })
		}
		time.Sleep(80 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond)
	l.end()
	for _, p := range proxies {
		p.Cut(redistest.Up, -1)
	}
	l.fails(-1, redlock.ErrNoQuorum)
	f.allUp(c, inTheEnd)
	f.noOrphans(unprompted)
	t.Logf("%d grants, %d inspected, %v", l.granted(0, maxLoad*time.Millisecond), inspected.Load(), l.errs)
}

// A listener at a node's address need not be a node. The error names its
// protocol, it is dialed rarely, and the other four serve (R16, R26).
func TestFaultWrongProtocol_R16_R26(t *testing.T) {
	f := newFleet(t, 4, redistest.OverTCP)
	secure := redistest.Servers(t, 1, redistest.OverTLS)[0]
	requests, accepted := new(atomic.Int64), new(atomic.Int64)
	web := serveHTTP(t, requests, accepted)
	plain := redistest.Servers(t, 1, redistest.OverTCP)[0].TCPAddr()
	trust := "&tls_ca_file=" + url.QueryEscape(secure.CAFile())
	cases := []struct{ name, url, trust, speaks string }{
		{"HTTP", "redis://" + web, "", "HTTP"},
		{"HTTP with TLS expected", "rediss://" + web, trust, "HTTP"},
		{"TLS", "redis://" + secure.TCPAddr(), "", "nothing"},             // the server just hangs up
		{"RESP with TLS expected", "rediss://" + plain, trust, "silence"}, // it waits for the end of a line
		{"TLS of an unknown authority", secure.URL(), "", "certificate"},
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			f := &fleet{t, f.servers}
			before, begun := accepted.Load(), time.Now()
			c := f.client(redlock.Config{
				Nodes:       redlock.Nodes(append(redistest.URLs(f.servers), tt.url+"?dial_timeout=200ms"+tt.trust)...),
				NodeTimeout: unhurried,
			})
			l := f.load(c, workload{callers: 8})
			time.Sleep(300 * time.Millisecond)
			n, lasted := accepted.Load()-before, time.Since(begun)
			l.until(100, inTheEnd)
			l.end()
			l.fails(fewFailures, redlock.ErrNoQuorum)
			eventually(t, inTheEnd, func() error {
				node := c.Nodes()[4]
				var peer *conn.PeerError
				switch {
				case node.State == "up":
					t.Error("what is no node is up")
					return nil
				case !errors.Is(node.Err, multiplex.ErrDown):
					return fmt.Errorf("the node is %s: %w", node.State, node.Err)
				case tt.speaks == "certificate":
					var unknown *tls.CertificateVerificationError
					if !errors.As(node.Err, &unknown) {
						return fmt.Errorf("R27: not refused for its certificate: %w", node.Err)
					}
				case tt.speaks == "nothing":
					if !strings.Contains(node.Err.Error(), "before the answer to HELLO") && !errors.As(node.Err, &peer) {
						return fmt.Errorf("it is not said that the peer hung up: %w", node.Err)
					}
				case tt.speaks == "silence":
					if !errors.Is(node.Err, os.ErrDeadlineExceeded) && !errors.As(node.Err, &peer) {
						return fmt.Errorf("it is not said that the peer said nothing: %w", node.Err)
					}
				case !errors.As(node.Err, &peer) || !strings.Contains(peer.Speaks, tt.speaks):
					return fmt.Errorf("it is not said that the peer speaks %s: %w", tt.speaks, node.Err)
				}
				return nil
			})
			t.Log(c.Nodes()[4].Err)
			// 0.3 s, or what a busy machine makes of it: from then on the
			// pauses are nearly half a second or more, with two connects after
			// each.
			if most := 6 + int64(5*(lasted-300*time.Millisecond).Seconds()); n > most {
				t.Errorf("R26: %d connects within %v", n, lasted)
			}
		})
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("the web server understood %d requests", n)
	}
	f.noOrphans(unprompted)
}

func serveHTTP(t *testing.T, requests, accepted *atomic.Int64) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.WriteHeader(http.StatusTeapot)
		}),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				accepted.Add(1)
			}
		},
		ReadHeaderTimeout: time.Second,
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return l.Addr().String()
}
