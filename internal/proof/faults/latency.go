package faults

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// LatencyOptions say what MeasureLatency does. The zero value works.
type LatencyOptions struct {
	// Faults are names of LatencyFaults. If nil, all of them.
	Faults []string
	// Callers are the load. If zero, 64.
	Callers int
	// Stretch is how long the load runs with the fault, and as long without it; Turns how often. If zero, 2 s and 3.
	Stretch time.Duration
	Turns   int
	// Portable has the client read without the poller; see redlock.Config.
	Portable bool
	// Progress is told of each line when it is done. If nil, nobody is.
	Progress func(LatencyLine)
}

func (o LatencyOptions) complete() LatencyOptions {
	if o.Faults == nil {
		o.Faults = LatencyFaults()
	}
	o.Callers = cmp.Or(o.Callers, 64)
	o.Stretch = cmp.Or(o.Stretch, 2*time.Second)
	o.Turns = cmp.Or(o.Turns, 3)
	return o
}

// Latency is what one fault at one of five nodes costs those who acquire.
type Latency struct {
	Callers int
	Lines   []LatencyLine
}

// A LatencyLine compares a load with one fault with the same load without it.
type LatencyLine struct {
	Fault            string
	Healthy, Faulted LatencyLevel
}

// A LatencyLevel is the acquisitions of one half.
type LatencyLevel struct {
	Grants, Failures uint64
	Rate             float64 // grants a second
	P50, P99         time.Duration
}

// String is the table as the report shows it.
func (l Latency) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "acquire with one fault at one of %d nodes, %d callers, and without it in turn\n", latencyNodes, l.Callers)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "  fault\tp50\thealthy\tp99\thealthy\t×\tgrants/s\tof healthy\tfailures\thealthy\t\n")
	for _, x := range l.Lines {
		h, f := x.Healthy, x.Faulted
		fmt.Fprintf(w, "  %s\t%v\t%v\t%v\t%v\t%.2f\t%.0f\t%.2f\t%d\t%d\t\n", x.Fault, tens(f.P50), tens(h.P50), tens(f.P99), tens(h.P99),
			ratio(float64(f.P99), float64(h.P99)), f.Rate, ratio(f.Rate, h.Rate), f.Failures, h.Failures)
	}
	w.Flush()
	return b.String()
}

func tens(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// A latencyFault is one thing that is wrong with one node for a while.
type latencyFault struct {
	name    string
	proxied bool
	on, off func(s *latencySite) error
	// every is how often on is done again while the fault lasts, for what is over in a moment. If zero, once.
	every time.Duration
}

// Single faults: what is over in a moment is done again twenty times a second, or as soon as it is over.
var latencyFaults = []latencyFault{
	{name: "SIGSTOP", on: onServer((*redistest.Server).Stop), off: onServer((*redistest.Server).Continue)},
	{name: "kill -9", on: onServer((*redistest.Server).Kill), off: onServer((*redistest.Server).Restart)},
	{name: "delay of 20 ms", proxied: true, on: onProxy(func(p *redistest.Proxy) { p.Latency(10*time.Millisecond, 10*time.Millisecond) }),
		off: onProxy(func(p *redistest.Proxy) { p.Latency(0, 0) })},
	{name: "drip", proxied: true, on: onProxy(func(p *redistest.Proxy) { p.Drip(redistest.Down, time.Millisecond) }),
		off: onProxy(func(p *redistest.Proxy) { p.Drip(redistest.Down, 0) })},
	{name: "reset", proxied: true, on: onProxy(func(p *redistest.Proxy) { p.Reset() }), off: nothing, every: 50 * time.Millisecond},
	{name: "half-open", proxied: true, on: onProxy(func(p *redistest.Proxy) { p.HalfOpen() }), off: nothing, every: time.Second},
	{name: "held up", proxied: true, on: onProxy(func(p *redistest.Proxy) { p.Pause(redistest.Up) }),
		off: onProxy(func(p *redistest.Proxy) { p.Resume(redistest.Up) })},
	{name: "held down", proxied: true, on: onProxy(func(p *redistest.Proxy) { p.Pause(redistest.Down) }),
		off: onProxy(func(p *redistest.Proxy) { p.Resume(redistest.Down) })},
	{name: "refused", proxied: true, on: onProxy(func(p *redistest.Proxy) { p.Refuse(true); p.Reset() }),
		off: onProxy(func(p *redistest.Proxy) { p.Refuse(false) })},
	{name: "CLIENT PAUSE", on: asked("CLIENT", "PAUSE", "300", "ALL"), off: asked("CLIENT", "UNPAUSE"), every: 400 * time.Millisecond},
	{name: "DEBUG SLEEP", on: asked("DEBUG", "SLEEP", "0.1"), off: nothing, every: 150 * time.Millisecond},
	{name: "CLIENT KILL", on: asked("CLIENT", "KILL", "TYPE", "normal"), off: nothing, every: 50 * time.Millisecond},
	{name: "SCRIPT FLUSH", on: asked("SCRIPT", "FLUSH"), off: nothing, every: 50 * time.Millisecond},
	{name: "OOM", on: asked("CONFIG", "SET", "maxmemory", "1"), off: asked("CONFIG", "SET", "maxmemory", "0")},
	{name: "NOREPLICAS", on: asked("CONFIG", "SET", "min-replicas-to-write", "1"), off: asked("CONFIG", "SET", "min-replicas-to-write", "0")},
}

// LatencyFaults are the names of all faults that MeasureLatency knows.
func LatencyFaults() []string {
	var names []string
	for _, f := range latencyFaults {
		names = append(names, f.name)
	}
	return names
}

func onServer(do func(*redistest.Server) error) func(*latencySite) error {
	return func(s *latencySite) error { return do(s.servers[latencyOne]) }
}

func onProxy(do func(*redistest.Proxy)) func(*latencySite) error {
	return func(s *latencySite) error {
		do(s.proxy)
		return nil
	}
}

// asked runs a command on the server, from the side.
func asked(args ...string) func(*latencySite) error {
	return func(s *latencySite) error {
		_, err := s.servers[latencyOne].Do(args...)
		return err
	}
}

func nothing(*latencySite) error { return nil }

const (
	latencyNodes = 5
	latencyOne   = latencyNodes - 1
)

// MeasureLatency loads a client of five nodes and has exactly one of them fail in exactly one way, again and again, and
// compares with the stretches between. Both see the same servers, the same connections and whatever else the machine does.
func MeasureLatency(ctx context.Context, options LatencyOptions) (Latency, error) {
	o := options.complete()
	all := Latency{Callers: o.Callers}
	for _, name := range o.Faults {
		line, err := o.measure(ctx, name)
		if err != nil {
			return all, fmt.Errorf("faults: latency: %s: %w", name, err)
		}
		all.Lines = append(all.Lines, line)
		if o.Progress != nil {
			o.Progress(line)
		}
	}
	return all, nil
}

// measure makes one line.
func (o LatencyOptions) measure(ctx context.Context, name string) (line LatencyLine, err error) {
	line.Fault = name
	s, err := newLatencySite(name)
	if err != nil {
		return line, err
	}
	defer s.close()
	client, err := redlock.New(ctx, redlock.Config{Nodes: redlock.Nodes(s.urls...), Portable: o.Portable})
	if err != nil {
		return line, err
	}
	defer client.Close(context.Background())
	if err := s.mended(ctx, client); err != nil {
		return line, err
	}
	const between, healthyPart, faultedPart = 0, 1, 2
	p := newPressure([]*redlock.Client{client}, o.Callers, 3)
	defer p.end()
	for range o.Turns {
		if err := pauseFor(ctx, o.Stretch/4); err != nil { // until buffers have their sizes, and what was owed is paid
			return line, err
		}
		p.to(healthyPart)
		if err := pauseFor(ctx, o.Stretch); err != nil {
			return line, err
		}
		p.to(faultedPart)
		err := s.suffer(ctx, o.Stretch)
		p.to(between)
		if err := cmp.Or(err, s.fault.off(s)); err != nil {
			return line, err
		}
		if err := s.mended(ctx, client); err != nil {
			return line, err
		}
	}
	p.end()
	line.Healthy.tell(&p.phases[healthyPart])
	line.Faulted.tell(&p.phases[faultedPart])
	return line, nil
}

func (l *LatencyLevel) tell(p *pressurePhase) {
	l.Grants, l.Failures, l.Rate = p.grants.Load(), p.failures.Load(), p.rate()
	l.P50, l.P99 = p.took.quantile(0.5), p.took.quantile(0.99)
}

// A latencySite is the servers of one line.
type latencySite struct {
	fault   latencyFault
	servers []*redistest.Server
	proxy   *redistest.Proxy // nil where the fault is the server's
	urls    []string
}

func newLatencySite(name string) (s *latencySite, err error) {
	s = &latencySite{}
	for _, f := range latencyFaults {
		if f.name == name {
			s.fault = f
		}
	}
	if s.fault.on == nil {
		return nil, fmt.Errorf("no such fault: %q", name)
	}
	if s.servers, err = redistest.StartN(latencyNodes, redistest.Options{TCP: true, Unix: true}); err != nil {
		return nil, err
	}
	s.urls = redistest.URLs(s.servers)
	if s.fault.proxied {
		if s.proxy, err = redistest.NewProxy(s.urls[latencyOne]); err != nil {
			s.close()
			return nil, err
		}
		s.urls[latencyOne] = s.proxy.URL()
	}
	return s, nil
}

func (s *latencySite) close() {
	if s.proxy != nil {
		s.proxy.Close()
	}
	for _, server := range s.servers {
		server.Close()
	}
}

// suffer keeps the fault up for a time.
func (s *latencySite) suffer(ctx context.Context, lasts time.Duration) error {
	for end := time.Now().Add(lasts); ; {
		began := time.Now()
		if err := s.fault.on(s); err != nil {
			return err
		}
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		pause := left
		if s.fault.every > 0 {
			pause = max(0, min(left, s.fault.every-time.Since(began)))
		}
		if err := pauseFor(ctx, pause); err != nil || time.Now().After(end) {
			return err
		}
	}
}

// mended waits until all nodes count again.
func (s *latencySite) mended(ctx context.Context, client *redlock.Client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return awaitCounting(ctx, client)
}
