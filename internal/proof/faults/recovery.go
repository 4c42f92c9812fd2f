package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// The ways in which MeasureRecovery takes a node away and gives it back.
const (
	// RecoveryStopped is SIGSTOP and SIGCONT: connections stay, and the kernel takes bytes meanwhile.
	RecoveryStopped = "stopped"
	// RecoveryHeld is the same done by the network: a proxy holds both directions, and lets them go. R26 does not name it; its
	// bound is that of a node that refused, since what the node is owed passes through the proxy, which shares our processors.
	RecoveryHeld = "held"
	// RecoveryRefused is a proxy that resets connections and refuses new ones.
	RecoveryRefused = "refused"
	// RecoveryRestarted is kill -9 and another start, without MaxTTL, so that nobody minds that the keys are gone.
	RecoveryRestarted = "restarted"
	// RecoveryForgotten is the same with MaxTTL: the node is quarantined first (R23).
	RecoveryForgotten = "forgotten"
)

// RecoveryKinds are all of them.
func RecoveryKinds() []string {
	return []string{RecoveryStopped, RecoveryHeld, RecoveryRefused, RecoveryRestarted, RecoveryForgotten}
}

// The bounds of R26: of a node that was only stopped, and of one that refused connections.
const (
	recoveryOfStopped = 200 * time.Millisecond
	recoveryOfRefused = 1200 * time.Millisecond
)

// RecoveryOptions say what MeasureRecovery does. The zero value works.
type RecoveryOptions struct {
	// Kinds are what is done to a node. If nil, RecoveryKinds.
	Kinds []string
	// Repeats is how often, each. If zero, 20.
	Repeats int
	// Clients are how many measure each time: each redials by delays of its own. If zero, 4.
	Clients int
	// Callers are the load of the loaded half of the measurements, over all clients. If zero, 64.
	Callers int
	// Away is how long a node is away at most. If zero, 3 s, in which the delays between dials grow to their bound; half of it
	// for a node that is only stopped.
	Away time.Duration
	// MaxTTL is for RecoveryForgotten. If zero, 1 s.
	MaxTTL time.Duration
	// Portable has the clients read without the poller; see redlock.Config.
	Portable bool
	// Progress is told of each line when it is done. If nil, nobody is.
	Progress func(RecoveryLine)
}

func (o RecoveryOptions) complete() RecoveryOptions {
	if o.Kinds == nil {
		o.Kinds = RecoveryKinds()
	}
	o.Repeats = cmp.Or(o.Repeats, 20)
	o.Clients = cmp.Or(o.Clients, 4)
	o.Callers = cmp.Or(o.Callers, 64)
	o.Away = cmp.Or(o.Away, 3*time.Second)
	o.MaxTTL = cmp.Or(o.MaxTTL, time.Second)
	return o
}

// Recovery is how long it takes from the moment a node works again until its vote counts.
type Recovery struct {
	Nodes, Clients, Callers int
	Lines                   []RecoveryLine
}

// A RecoveryLine is the measurements of one kind, idle or under load.
type RecoveryLine struct {
	Kind   string
	Loaded bool
	Bound  time.Duration   // what R26, and R23 for what was forgotten, allow
	Took   []time.Duration // in ascending order
	// Attempt is how long the attempts that were granted took themselves, in the median: it tells how busy the machine was.
	Attempt time.Duration
	// Early are votes of a node that may have forgotten, counted before its quarantine can have been over: a violation.
	Early int
}

// Median, P99 and Greatest are of Took.
func (l RecoveryLine) Median() time.Duration { return l.at(0.5) }

// P99 is the greatest of fewer than a hundred.
func (l RecoveryLine) P99() time.Duration { return l.at(0.99) }

// Greatest is the worst of all.
func (l RecoveryLine) Greatest() time.Duration { return l.at(1) }

func (l RecoveryLine) at(q float64) time.Duration {
	if len(l.Took) == 0 {
		return 0
	}
	return l.Took[min(len(l.Took)-1, int(q*float64(len(l.Took))))]
}

// over counts those beyond the bound.
func (l RecoveryLine) over() (n int) {
	for _, took := range l.Took {
		if took > l.Bound {
			n++
		}
	}
	return n
}

// Err says which lines broke a bound, or counted what must not count; nil if none did.
func (r Recovery) Err() error {
	var errs []error
	for _, l := range r.Lines {
		if n := l.over(); n > 0 {
			errs = append(errs, fmt.Errorf("R26: %s, %s: %d of %d took more than %v, up to %v",
				l.Kind, l.load(), n, len(l.Took), l.Bound, l.Greatest().Round(time.Millisecond)))
		}
		if l.Early > 0 {
			errs = append(errs, fmt.Errorf("R23: %s, %s: %d votes counted before the quarantine can have been over", l.Kind, l.load(), l.Early))
		}
	}
	return errors.Join(errs...)
}

func (l RecoveryLine) load() string {
	if l.Loaded {
		return "loaded"
	}
	return "idle"
}

// String is the table as the report shows it.
func (r Recovery) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "from heal to counted vote: %d nodes, %d clients, %d callers where loaded\n", r.Nodes, r.Clients, r.Callers)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "  node was\t\ttimes\tmedian\tp99\tgreatest\tbound\tover\tan attempt\t\n")
	for _, l := range r.Lines {
		fmt.Fprintf(w, "  %s\t%s\t%d\t%v\t%v\t%v\t%v\t%d\t%v\t\n", l.Kind, l.load(), len(l.Took),
			tenths(l.Median()), tenths(l.P99()), tenths(l.Greatest()), l.Bound, l.over(), tenths(l.Attempt))
	}
	w.Flush()
	return b.String()
}

func tenths(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// MeasureRecovery takes a node of five away, gives it back, and measures until its vote counts, again and again. Two other
// nodes hold the resource in question for somebody else, so that it can be granted with this node's vote alone, and each client
// asks for it about once a millisecond: a vote counts when a lock that needs it is granted. The time runs from the moment
// before the node is given back; for one that starts anew, from the moment when it first answers.
//
// Each time begins with fresh clients, so that the bound on connects a minute (R26), which a node that fails every few
// seconds meets, is not what is measured.
//
// An error is about the measurement. Whether the figures are good is for Recovery.Err to say.
func MeasureRecovery(ctx context.Context, options RecoveryOptions) (Recovery, error) {
	o := options.complete()
	if min(o.Repeats, o.Clients, o.Callers) < 1 {
		return Recovery{}, errors.New("faults: recovery: a number is too small")
	}
	all := Recovery{Nodes: recoveryNodes, Clients: o.Clients, Callers: o.Callers}
	for _, kind := range o.Kinds {
		for _, loaded := range []bool{false, true} {
			line, err := o.measure(ctx, kind, loaded)
			if err != nil {
				return all, fmt.Errorf("faults: recovery: %s: %w", kind, err)
			}
			all.Lines = append(all.Lines, line)
			if o.Progress != nil {
				o.Progress(line)
			}
		}
	}
	return all, nil
}

const (
	recoveryNodes = 5
	// recoveryPatient is the node that is taken away; recoveryRefusing hold the resource for somebody else.
	recoveryPatient  = recoveryNodes - 1
	recoveryRefusing = recoveryNodes / 2
	// recoveryWait bounds one time, so that a node that never comes back ends the measurement.
	recoveryWait = time.Minute
	recoveryKey  = "recovery:"
)

// measure makes one line.
func (o RecoveryOptions) measure(ctx context.Context, kind string, loaded bool) (RecoveryLine, error) {
	l := RecoveryLine{Kind: kind, Loaded: loaded, Bound: recoveryOfRefused}
	s := recoverySite{options: o, kind: kind, loaded: loaded}
	switch kind {
	case RecoveryStopped:
		l.Bound = recoveryOfStopped
	case RecoveryForgotten:
		s.maxTTL = o.MaxTTL
		l.Bound += s.quarantine()
	}
	if err := s.start(); err != nil {
		return l, err
	}
	defer s.close()
	var attempts []time.Duration
	for range o.Repeats {
		votes, err := s.once(ctx)
		if err != nil {
			return l, err
		}
		for _, v := range votes {
			l.Took = append(l.Took, v.took)
			attempts = append(attempts, v.attempt)
			if v.early {
				l.Early++
			}
		}
	}
	slices.Sort(l.Took)
	slices.Sort(attempts)
	l.Attempt = attempts[len(attempts)/2]
	return l, nil
}

// A recoveredVote is the first vote of the node that counted with one client.
type recoveredVote struct {
	at      time.Time
	took    time.Duration // since the heal
	attempt time.Duration // of which the attempt itself
	early   bool          // it must not have counted yet (R23)
}

// A recoverySite is the servers of one line.
type recoverySite struct {
	options RecoveryOptions
	kind    string
	loaded  bool
	maxTTL  time.Duration

	servers []*redistest.Server
	proxy   *redistest.Proxy // before the patient, for what the network does
	urls    []string

	// What is broken on purpose, to see that it is found: the clients' configuration, that the lock can be had without the
	// patient, and that the patient is later than it is said to be.
	spoil func(*redlock.Config)
	free  bool
	lag   time.Duration
}

// quarantine is how long a node is watched: MaxTTL, the drift and a margin (R23).
func (s *recoverySite) quarantine() time.Duration {
	return s.maxTTL + s.maxTTL/100 + 5*time.Millisecond
}

func (s *recoverySite) start() (err error) {
	if s.servers, err = redistest.StartN(recoveryNodes, redistest.Options{TCP: true, Unix: true}); err != nil {
		return err
	}
	s.urls = redistest.URLs(s.servers)
	if s.kind == RecoveryHeld || s.kind == RecoveryRefused {
		if s.proxy, err = redistest.NewProxy(s.urls[recoveryPatient]); err != nil {
			s.close()
			return err
		}
		s.urls[recoveryPatient] = s.proxy.URL()
	}
	return nil
}

func (s *recoverySite) close() {
	if s.proxy != nil {
		s.proxy.Close()
	}
	for _, server := range s.servers {
		server.Close()
	}
}

// once takes the node away and gives it back, and returns the first vote of it for each client.
func (s *recoverySite) once(ctx context.Context) ([]recoveredVote, error) {
	ctx, cancel := context.WithTimeout(ctx, recoveryWait)
	defer cancel()
	clients, err := s.settled(ctx)
	defer func() {
		for _, c := range clients {
			_ = c.Close(context.Background())
		}
	}()
	if err != nil {
		return nil, err
	}
	if s.loaded {
		p := newPressure(clients, s.options.Callers, 1)
		defer p.end()
		if err := pauseFor(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
	if err := s.occupy(clients); err != nil {
		return nil, err
	}
	if err := s.takeAway(); err != nil {
		return nil, err
	}
	// From now on each client asks all the time, so that it finds out as a busy client does.
	votes := make([]recoveredVote, len(clients))
	var asking sync.WaitGroup
	for i, c := range clients {
		asking.Go(func() { votes[i] = s.ask(ctx, c, i) })
	}
	err = pauseFor(ctx, s.away())
	first, healed, errHeal := s.giveBack()
	asking.Wait()
	if err := cmp.Or(err, errHeal); err != nil {
		return nil, err
	}
	for i := range votes {
		v := &votes[i]
		switch {
		case v.at.IsZero():
			return nil, fmt.Errorf("its vote did not count within %v: %w", recoveryWait, context.Cause(ctx))
		case v.at.Before(first):
			return nil, errors.New("granted while the node was away: the measurement is wrong, or the lock is")
		}
		v.early = s.maxTTL > 0 && v.at.Sub(first) < s.quarantine()
		v.took = max(0, v.at.Sub(healed))
	}
	return votes, nil
}

// settled makes the clients, and waits until every node counts with each of them.
func (s *recoverySite) settled(ctx context.Context) (clients []*redlock.Client, err error) {
	for range s.options.Clients {
		config := redlock.Config{
			Nodes: redlock.Nodes(s.urls...), MaxTTL: s.maxTTL, NewDeployment: s.maxTTL > 0, Portable: s.options.Portable,
		}
		if s.spoil != nil {
			s.spoil(&config)
		}
		c, err := redlock.New(ctx, config)
		if err != nil {
			return clients, err
		}
		clients = append(clients, c)
	}
	for _, c := range clients {
		if err := awaitCounting(ctx, c); err != nil {
			return clients, err
		}
	}
	return clients, nil
}

// awaitCounting waits until each node of a client is up, owes nothing, and counts.
func awaitCounting(ctx context.Context, c *redlock.Client) error {
	for {
		missing := slices.ContainsFunc(c.Nodes(), func(n redlock.NodeStatus) bool {
			return n.State != "up" || n.Debts > 0 || n.Quarantined
		})
		if !missing {
			return nil
		}
		if err := pauseFor(ctx, 2*time.Millisecond); err != nil {
			return fmt.Errorf("not all nodes count: %w", err)
		}
	}
}

// occupy gives each client's resource to somebody else on as many nodes as can be without.
func (s *recoverySite) occupy(clients []*redlock.Client) error {
	if s.free {
		return nil
	}
	for i := range clients {
		for _, server := range s.servers[:recoveryRefusing] {
			if _, err := server.Do("SET", fmt.Sprint(recoveryKey, i), "another", "PX", "600000"); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask asks until the lock is granted; the zero vote says that it was not.
func (s *recoverySite) ask(ctx context.Context, c *redlock.Client, i int) (v recoveredVote) {
	resource := fmt.Sprint(recoveryKey, i)
	ttl := 5 * time.Second
	if s.maxTTL > 0 {
		ttl = s.maxTTL
	}
	for ctx.Err() == nil {
		begun := time.Now()
		lock, err := c.TryAcquire(ctx, resource, ttl)
		if err == nil {
			v.at = time.Now()
			v.attempt = v.at.Sub(begun)
			_ = lock.Release(ctx)
			return v
		}
		_ = pauseFor(ctx, time.Millisecond)
	}
	return v
}

// away is how long the node is away this time.
func (s *recoverySite) away() time.Duration {
	most := s.options.Away
	if s.kind == RecoveryStopped || s.kind == RecoveryHeld {
		most /= 2
	}
	return 50*time.Millisecond + rand.N(most)
}

func (s *recoverySite) takeAway() error {
	patient := s.servers[recoveryPatient]
	switch s.kind {
	case RecoveryStopped:
		return patient.Stop()
	case RecoveryHeld:
		s.proxy.Pause(redistest.Both)
	case RecoveryRefused:
		s.proxy.Refuse(true)
		s.proxy.Reset()
	default:
		return patient.Kill()
	}
	return nil
}

// giveBack returns the first moment at which the node can have voted, and the one that counts as the heal.
func (s *recoverySite) giveBack() (first, healed time.Time, err error) {
	patient := s.servers[recoveryPatient]
	first = time.Now()
	time.Sleep(s.lag)
	switch s.kind {
	case RecoveryStopped:
		return first, first, patient.Continue()
	case RecoveryHeld:
		s.proxy.Resume(redistest.Both)
	case RecoveryRefused:
		s.proxy.Refuse(false)
	default:
		err = patient.Restart()
		return first, time.Now(), err
	}
	return first, first, nil
}

// pauseFor returns the context's error if that ends before.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
