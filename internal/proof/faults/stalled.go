package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// The ways in which MeasureStalled keeps a node connected and silent.
const (
	// StalledStopped is SIGSTOP: the kernel takes bytes until its buffers are full.
	StalledStopped = "stopped"
	// StalledUp is a network that carries nothing to the node, and StalledDown one that carries nothing back, so that the
	// node does all that it is told and nobody hears of it.
	StalledUp   = "held up"
	StalledDown = "held down"
	// StalledDrip is a network that lets the node's answers through at a thousand bytes a second.
	StalledDrip = "dripping"
	// StalledMute is a node that shakes hands each time, takes every command, and never answers one.
	StalledMute = "mute"
)

// StalledWays are all of them.
func StalledWays() []string {
	return []string{StalledStopped, StalledUp, StalledDown, StalledDrip, StalledMute}
}

const (
	// stalledGrowth bounds what a stalled node may cost in memory that is in use, and stalledRSSGrowth what the system may see of
	// it: the collector lets as much again become garbage before it looks.
	stalledGrowth    = 16 << 20
	stalledRSSGrowth = 2 * stalledGrowth
	// stalledSample is the time between two looks at the memory, each of which collects garbage.
	stalledSample = 500 * time.Millisecond
	// stalledLooks is how many looks there are at least, however long they take on a busy machine.
	stalledLooks = 5
	stalledNodes = 5
	stalledOne   = stalledNodes - 1
	// stalledDrip is the time between two bytes.
	stalledDrip = time.Millisecond
)

// StalledOptions say what MeasureStalled does. The zero value works.
type StalledOptions struct {
	// Ways are how the node stalls. If nil, StalledWays.
	Ways []string
	// Callers are how many acquire and release at once, each number in a measurement of its own. If nil, 128 and 1,024.
	Callers []int
	// Healthy and Stalled are how long the load runs before the node stalls, and from then on. If zero, 5 s and 20 s.
	Healthy, Stalled time.Duration
	// Portable has the client read without the poller; see redlock.Config.
	Portable bool
	// Progress is told of each line when it is done. If nil, nobody is.
	Progress func(StalledLine)

	leak int // bytes to lose at each look while the node is stalled, to see that it is found
}

func (o StalledOptions) complete() StalledOptions {
	if o.Ways == nil {
		o.Ways = StalledWays()
	}
	if o.Callers == nil {
		o.Callers = []int{128, 1024}
	}
	o.Healthy = cmp.Or(o.Healthy, 5*time.Second)
	o.Stalled = cmp.Or(o.Stalled, 20*time.Second)
	return o
}

// Stalled is what a client costs while one of five nodes is connected and silent.
type Stalled struct{ Lines []StalledLine }

// A StalledLine is the measurement of one way with one load.
type StalledLine struct {
	Way              string
	Callers          int
	Healthy, Stalled StalledLevel
	// What the client says of the node: how often it was given up, connections that were made, and the most releases owed.
	GivenUp, Connects, Debts int
}

// A StalledLevel is the most memory that was seen in a part of the measurement, and what was done in it.
type StalledLevel struct {
	Lasted           time.Duration
	Heap, RSS        uint64 // bytes: in use after a collection, and resident; RSS is 0 where the system does not tell
	Grants, Failures uint64
	Rate             float64 // grants a second
	P99              time.Duration
}

// HeapGrowth and RSSGrowth are how much more memory there was than when all were healthy, in bytes; zero if there was less.
func (l StalledLine) HeapGrowth() uint64 { return growth(l.Healthy.Heap, l.Stalled.Heap) }

// RSSGrowth is HeapGrowth for resident memory.
func (l StalledLine) RSSGrowth() uint64 { return growth(l.Healthy.RSS, l.Stalled.RSS) }

func growth(before, after uint64) uint64 {
	if after < before {
		return 0
	}
	return after - before
}

// Err says which lines' heap grew by more than 16 MiB, or resident memory by more than 32 MiB; nil if none did. Throughput depends on the machine, and is the caller's to
// judge.
func (s Stalled) Err() error {
	var errs []error
	for _, l := range s.Lines {
		if l.HeapGrowth() > stalledGrowth || l.RSSGrowth() > stalledRSSGrowth {
			errs = append(errs, fmt.Errorf("R26: %s, %d callers: the heap grew by %s and the resident memory by %s, more than %s and %s",
				l.Way, l.Callers, mebibytes(l.HeapGrowth()), mebibytes(l.RSSGrowth()), mebibytes(stalledGrowth), mebibytes(stalledRSSGrowth)))
		}
	}
	return errors.Join(errs...)
}

// String is the table as the report shows it.
func (s Stalled) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "one of %d nodes connected and silent, at full load\n", stalledNodes)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "  node is\tcallers\tfor\theap\tgrew\tRSS\tgrew\tgrants/s\tof healthy\tp99\tof healthy\tgiven up\tconnects\tdebts\t\n")
	for _, l := range s.Lines {
		fmt.Fprintf(w, "  %s\t%d\t%v\t%s\t%s\t%s\t%s\t%.0f\t%.2f\t%v\t%.2f\t%d\t%d\t%d\t\n", l.Way, l.Callers, l.Stalled.Lasted.Round(time.Second),
			mebibytes(l.Stalled.Heap), mebibytes(l.HeapGrowth()), mebibytes(l.Stalled.RSS), mebibytes(l.RSSGrowth()),
			l.Stalled.Rate, ratio(l.Stalled.Rate, l.Healthy.Rate),
			tenths(l.Stalled.P99), ratio(float64(l.Stalled.P99), float64(l.Healthy.P99)), l.GivenUp, l.Connects, l.Debts)
	}
	w.Flush()
	return b.String()
}

func mebibytes(n uint64) string { return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB" }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// MeasureStalled loads a client with as many callers as it can serve, lets one of its five nodes go silent while the
// connection stays, and compares the memory of this process before and after. What stands between the client and the node in some
// of the ways runs in this process too, and so is counted: some hundred KiB for each connection that it holds.
//
// An error is about the measurement. Whether the figures are good is for Stalled.Err to say.
func MeasureStalled(ctx context.Context, options StalledOptions) (Stalled, error) {
	o := options.complete()
	var all Stalled
	for _, way := range o.Ways {
		for _, callers := range o.Callers {
			line, err := o.measure(ctx, way, callers)
			if err != nil {
				return all, fmt.Errorf("faults: stalled: %s: %w", way, err)
			}
			all.Lines = append(all.Lines, line)
			if o.Progress != nil {
				o.Progress(line)
			}
		}
	}
	return all, nil
}

// measure makes one line.
func (o StalledOptions) measure(ctx context.Context, way string, callers int) (StalledLine, error) {
	l := StalledLine{Way: way, Callers: callers}
	s, err := newStalledSite(way)
	if err != nil {
		return l, err
	}
	defer s.close()
	client, err := redlock.New(ctx, redlock.Config{Nodes: redlock.Nodes(s.urls...), Portable: o.Portable})
	if err != nil {
		return l, err
	}
	defer client.Close(context.Background())
	settle, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := awaitCounting(settle, client); err != nil {
		return l, err
	}
	const warming, healthyPart, stalledPart = 0, 1, 2
	p := newPressure([]*redlock.Client{client}, callers, 3)
	defer p.end()
	// Buffers and pools get their sizes first.
	if err := pauseFor(ctx, min(time.Second, o.Healthy)); err != nil {
		return l, err
	}
	p.to(healthyPart)
	if err := l.Healthy.watch(ctx, o.Healthy, func() {}); err != nil {
		return l, err
	}
	p.to(stalledPart)
	if err := s.stall(); err != nil {
		return l, err
	}
	var lost [][]byte
	err = l.Stalled.watch(ctx, o.Stalled, func() {
		node := client.Nodes()[stalledOne]
		l.GivenUp, l.Connects, l.Debts = deathsOf(node), node.Connects, max(l.Debts, node.Debts)
		if o.leak > 0 {
			lost = append(lost, make([]byte, o.leak))
		}
	})
	runtime.KeepAlive(lost)
	p.to(warming)
	// The node is let go before the callers are ended: nothing of theirs depends on it, but the servers' end should be clean.
	err = errors.Join(err, s.goOn())
	p.end()
	l.Healthy.tell(&p.phases[healthyPart])
	l.Stalled.tell(&p.phases[stalledPart])
	return l, err
}

// deathsOf is how many connections to a node have ended, of whatever.
func deathsOf(node redlock.NodeStatus) (n int) {
	for _, deaths := range node.Counts.Deaths {
		n += int(deaths)
	}
	return n
}

// watch looks at the memory for a time, and keeps the most of it.
func (l *StalledLevel) watch(ctx context.Context, lasts time.Duration, look func()) error {
	end := time.Now().Add(lasts)
	for looks := 1; ; looks++ {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		l.Heap = max(l.Heap, m.HeapInuse)
		l.RSS = max(l.RSS, residentMemory())
		look()
		pause := min(time.Until(end), stalledSample)
		switch {
		case pause > 0:
		case looks >= stalledLooks:
			return nil
		default:
			pause = stalledSample
		}
		if err := pauseFor(ctx, pause); err != nil {
			return err
		}
	}
}

// tell takes the numbers of a phase that has ended.
func (l *StalledLevel) tell(p *pressurePhase) {
	l.Lasted, l.Grants, l.Failures, l.Rate = p.lasted, p.grants.Load(), p.failures.Load(), p.rate()
	l.P99 = p.took.quantile(0.99)
}

// A stalledSite is the servers of one line, and what stands before the last of them.
type stalledSite struct {
	way     string
	servers []*redistest.Server
	proxy   *redistest.Proxy
	mute    *muteRelay
	urls    []string
}

func newStalledSite(way string) (s *stalledSite, err error) {
	s = &stalledSite{way: way}
	if s.servers, err = redistest.StartN(stalledNodes, redistest.Options{TCP: true, Unix: true}); err != nil {
		return nil, err
	}
	s.urls = redistest.URLs(s.servers)
	switch way {
	case StalledUp, StalledDown, StalledDrip:
		if s.proxy, err = redistest.NewProxy(s.urls[stalledOne]); err == nil {
			s.urls[stalledOne] = s.proxy.URL()
		}
	case StalledMute:
		if s.mute, err = newMuteRelay(s.servers[stalledOne].TCPAddr()); err == nil {
			s.urls[stalledOne] = "redis://" + s.mute.addr()
		}
	case StalledStopped:
	default:
		err = fmt.Errorf("no such way: %q", way)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stalledSite) close() {
	if s.proxy != nil {
		s.proxy.Close()
	}
	if s.mute != nil {
		s.mute.close()
	}
	for _, server := range s.servers {
		server.Close()
	}
}

func (s *stalledSite) stall() error {
	switch s.way {
	case StalledUp:
		s.proxy.Pause(redistest.Up)
	case StalledDown:
		s.proxy.Pause(redistest.Down)
	case StalledDrip:
		s.proxy.Drip(redistest.Down, stalledDrip)
	case StalledMute:
		s.mute.mute()
	default:
		return s.servers[stalledOne].Stop()
	}
	return nil
}

func (s *stalledSite) goOn() error {
	switch s.way {
	case StalledUp, StalledDown:
		s.proxy.Resume(redistest.Both)
	case StalledDrip:
		s.proxy.Drip(redistest.Down, 0)
	case StalledMute: // for ever
	default:
		return s.servers[stalledOne].Continue()
	}
	return nil
}
