package failover

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A Node is servers of which one is the primary.
type Node interface {
	URL() string
	// ServerTLS is for a sentinel of a Way's own. It is nil without TLS.
	ServerTLS() *tls.Config
	// Route returns where a client is led that dials an address of this node,
	// and whether a sentinel is there.
	Route(addr string) (to string, sentinel, ok bool)
	// Kinds are the ways in which the primary may lose its place.
	Kinds() []string
	// Primary returns the address of the present one.
	Primary() (addr string, err error)
	// Fail makes the primary lose its place, waits until another has it, and
	// heals all.
	Fail(kind string) error
}

// A Trial is clients that use few locks while a node fails over.
type Trial struct {
	Nodes []Node
	// Open opens a client that reaches the nodes by a way.
	Open func(*Way) (Client, error)
	// MaxTTL is the longest TTL of locks.
	MaxTTL time.Duration
	// Failovers is how many there are. The nodes fail in turn.
	Failovers int
	// Rest is the time between them, in which new primaries begin to count.
	Rest time.Duration
	// Isolated leaves each client one node beside the first, which alone fails
	// over. Otherwise two quorums without a common server are rare.
	Isolated bool
	// Until ends the trial early.
	Until time.Time
	Log   func(format string, args ...any)

	truth   *Truth
	ways    []*Way
	clients []Client
	ended   chan struct{}
}

// A Report is what came of a trial.
type Report struct {
	Failovers int
	Kinds     map[string]int
	Spells    int
	// Grants and Pauses are by failover: how many locks were granted since it
	// began, and the longest time without a grant.
	Grants   []int
	Pauses   []time.Duration
	Overlaps []string
	// Lived and Lost count what came of locks that renew themselves, and were
	// held when a failover began, by its end.
	Lived, Lost int
	// Joined tells by failover whether another node failed over by itself, as
	// happens where sentinels get no CPU for half a second.
	Joined []bool
}

const (
	clients, callers = 4, 32
	resources        = 8
)

// Run makes the failovers. Its error is of the servers, or of a client that
// cannot be opened.
func (t *Trial) Run() (*Report, error) {
	t.truth, t.ended = newTruth(), make(chan struct{})
	var running sync.WaitGroup
	defer func() {
		for _, c := range t.clients {
			c.Close()
		}
	}()
	for i := range clients {
		way, err := newWay(t.Nodes)
		if err != nil {
			return nil, err
		}
		defer way.close()
		way.Direct = i == 0 && !t.Isolated
		c, err := t.Open(way)
		if err != nil {
			return nil, err
		}
		t.ways, t.clients = append(t.ways, way), append(t.clients, c)
	}
	if err := t.awaitClients(); err != nil {
		return nil, err
	}
	for i := range callers {
		running.Go(func() { t.call(i) })
	}
	for i, c := range t.clients {
		running.Go(func() { t.probe(i) })
		if c, ok := c.(Holder); ok {
			running.Go(func() { t.keep(c, i) })
		}
	}
	report := &Report{Kinds: map[string]int{}}
	err := t.failAll(report)
	pauses := t.truth.account() // not of the time in which the callers end
	close(t.ended)
	running.Wait()
	report.Overlaps, report.Spells = t.truth.overlaps(), len(t.truth.spells)
	report.Lived, report.Lost = t.truth.lived, t.truth.lost
	for _, p := range pauses[1:] {
		report.Grants, report.Pauses = append(report.Grants, p.grants), append(report.Pauses, p.longest)
	}
	return report, err
}

// awaitClients waits until each client grants a lock: the nodes are newly met.
func (t *Trial) awaitClients() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i, c := range t.clients {
		l, err := c.Acquire(ctx, fmt.Sprint("first:", i), t.MaxTTL)
		if err != nil {
			return fmt.Errorf("failover: client %d: %w", i, err)
		}
		_ = l.Release(ctx)
	}
	return nil
}

// failAll lets the nodes fail one after the other.
func (t *Trial) failAll(report *Report) error {
	time.Sleep(2 * time.Second) // until the slowest node counts
	if t.Isolated {
		for i, w := range t.ways {
			for n := range t.Nodes[1:] {
				if n != i%(len(t.Nodes)-1) {
					w.Stay(n+1, nowhere)
				}
			}
		}
	}
	for i := range t.Failovers {
		if !t.Until.IsZero() && time.Now().After(t.Until) {
			break
		}
		at, turn := i%len(t.Nodes), i/len(t.Nodes)
		if t.Isolated {
			at, turn = 0, i
		}
		kinds := t.Nodes[at].Kinds()
		kind := kinds[turn%len(kinds)]
		t.truth.failed()
		begun, before := time.Now(), t.others(at)
		if err := t.fail(at, kind); err != nil {
			return fmt.Errorf("failover %d, %s: %w", i, kind, err)
		}
		took := time.Since(begun)
		time.Sleep(t.Rest)
		if err := t.awaitGrant(); err != nil {
			return fmt.Errorf("after failover %d, %s: %w", i, kind, err)
		}
		report.Failovers++
		report.Kinds[kind]++
		report.Joined = append(report.Joined, !slices.Equal(before, t.others(at)))
		t.logLast(at, kind, took)
	}
	return nil
}

// awaitGrant waits until a lock is granted.
func (t *Trial) awaitGrant() error {
	before := t.truth.present().grants
	return awaitTrue("a lock", func() string { return "" }, func() bool { return t.truth.present().grants > before })
}

// others returns the primaries of all nodes but one.
func (t *Trial) others(than int) (all []string) {
	for i, n := range t.Nodes {
		if i != than {
			addr, err := n.Primary()
			all = append(all, fmt.Sprint(addr, err))
		}
	}
	return all
}

func (t *Trial) logLast(node int, kind string, took time.Duration) {
	p := t.truth.present()
	t.Log("node %d, %s: over after %.1f s, %d grants, the longest pause %.2f s, %d overlaps so far",
		node, kind, took.Seconds(), p.grants, p.longest.Seconds(), len(t.truth.overlaps()))
}

// fail leaves half of the clients with the primary, and lets it fail.
func (t *Trial) fail(node int, kind string) error {
	primary, err := t.Nodes[node].Primary()
	if err != nil {
		return err
	}
	left := 0
	for _, i := range rand.Perm(len(t.ways)) {
		if w := t.ways[i]; !w.Direct && left < len(t.ways)/2 {
			left++
			w.Stay(node, primary)
			defer w.Stay(node, "")
		}
	}
	return t.Nodes[node].Fail(kind)
}

// over waits for some time, and reports whether the trial has ended.
func (t *Trial) over(after time.Duration) bool {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-t.ended:
		return true
	case <-timer.C:
		return false
	}
}

// probe takes locks of which no other caller has heard, one after the other, so
// that pauses show.
func (t *Trial) probe(client int) {
	for i := 0; !t.over(5 * time.Millisecond); i++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		l, err := t.clients[client].Acquire(ctx, fmt.Sprintf("cold:%d:%d", client, i), t.MaxTTL/4)
		if err == nil {
			t.truth.granted()
			_ = l.Release(ctx)
		}
		cancel()
	}
}

// call is the life of one caller.
func (t *Trial) call(caller int) {
	for !t.over(time.Millisecond) {
		resource := fmt.Sprintf("hot:%d", rand.IntN(resources))
		ttl := t.MaxTTL - rand.N(t.MaxTTL/2)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		l, err := t.clients[caller%clients].Acquire(ctx, resource, ttl)
		if err == nil {
			from := time.Now()
			t.truth.granted()
			t.use(l, ttl)
			_, renews := l.(Renewed)
			leaves := !renews && rand.IntN(10) == 0
			until := l.Until()
			if now := time.Now(); !leaves && now.Before(until) {
				until = now
			}
			t.truth.had(resource, fmt.Sprint("caller ", caller), from, until)
			if !leaves {
				_ = l.Release(context.Background())
			}
		}
		cancel()
	}
}

// keep holds one of few locks, each time until it is lost.
func (t *Trial) keep(c Holder, client int) {
	resource := fmt.Sprintf("kept:%d", client%2)
	for !t.over(time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		l, err := c.Hold(ctx, resource, t.MaxTTL)
		cancel()
		if err != nil {
			continue
		}
		from, since := time.Now(), t.truth.failovers()
		select {
		case <-l.Context().Done():
			t.truth.kept(since, false)
		case <-t.ended:
			t.truth.kept(since, true)
		}
		until := l.Until()
		if now := time.Now(); now.Before(until) {
			until = now
		}
		t.truth.had(resource, fmt.Sprint("keeper ", client), from, until)
		_ = l.Release(context.Background())
	}
}

// use holds a lock for a moment, or extends it a few times.
func (t *Trial) use(l Lock, ttl time.Duration) {
	t.over(rand.N(20 * time.Millisecond))
	for range max(0, rand.IntN(8)-4) {
		if t.over(time.Until(l.Until())/3) || l.Extend(context.Background(), ttl) != nil {
			return
		}
	}
}

// Quantiles returns the median, the nine tenths quantile and the maximum.
func Quantiles(all []time.Duration) (median, most, longest time.Duration) {
	if len(all) == 0 {
		return 0, 0, 0
	}
	s := slices.Sorted(slices.Values(all))
	return s[len(s)/2], s[len(s)*9/10], s[len(s)-1]
}
