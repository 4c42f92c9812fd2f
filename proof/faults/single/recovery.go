package single

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redmux/redmux/redlock"
)

// Forgotten is Killed with MaxTTL: the node is quarantined first (R23).
const Forgotten = "forgotten"

// Recoveries returns the names of the faults that MeasureRecovery ends.
func Recoveries() []string { return []string{Stopped, Held, Refused, Killed, Forgotten} }

// The bounds of R26: of a node that was only stopped, and of one that refused
// connections. R26 does not name a node that was held. Its bound is the latter,
// since what the node is owed passes through the proxy, which shares our
// processors.
const (
	recoveryOfStopped = 200 * time.Millisecond
	recoveryOfRefused = 1200 * time.Millisecond
)

// RecoveryOptions are the options of MeasureRecovery. The zero value works.
type RecoveryOptions struct {
	// Faults are names of Recoveries. If nil, all of them.
	Faults []string
	// Repeats is how often each is made. If zero, 20.
	Repeats int
	// Clients is the number of clients that measure each time. Each redials
	// after random delays of its own. If zero, 4.
	Clients int
	// Callers is the load of the loaded half of the measurements, over all
	// clients. If zero, 64.
	Callers int
	// Away is the longest time for which a node is away. If zero, 3 s, in which
	// the delays between dials grow to their bound. It is halved for a node
	// that is only stopped or held.
	Away time.Duration
	// MaxTTL is for Forgotten. If zero, 1 s.
	MaxTTL time.Duration
	// Progress is called with each line when it is complete, unless it is nil.
	Progress func(RecoveryLine)
}

func (o RecoveryOptions) complete() RecoveryOptions {
	if o.Faults == nil {
		o.Faults = Recoveries()
	}
	o.Repeats = cmp.Or(o.Repeats, 20)
	o.Clients = cmp.Or(o.Clients, 4)
	o.Callers = cmp.Or(o.Callers, 64)
	o.Away = cmp.Or(o.Away, 3*time.Second)
	o.MaxTTL = cmp.Or(o.MaxTTL, time.Second)
	return o
}

// Recovery is how long it takes from the moment a node works again until its
// vote counts.
type Recovery struct {
	Nodes, Clients, Callers int
	Lines                   []RecoveryLine
}

// A RecoveryLine is the measurements of one fault, idle or under load.
type RecoveryLine struct {
	Fault  string
	Loaded bool
	Bound  time.Duration   // what R26, and R23 after Forgotten, allow
	Took   []time.Duration // in ascending order
	// Attempt is the median duration of the attempts that were granted. It
	// tells how busy the machine was.
	Attempt time.Duration
	// Early is the number of votes of a node that may have forgotten which
	// counted before its quarantine can have been over: a violation.
	Early int
}

// At returns a quantile of Took, the greatest for 1.
func (l RecoveryLine) At(q float64) time.Duration {
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

// Err names the lines that broke a bound, or counted what must not count.
func (r Recovery) Err() error {
	var errs []error
	for _, l := range r.Lines {
		if n := l.over(); n > 0 {
			errs = append(errs, fmt.Errorf("R26: %s, %s: %d of %d took more than %v, up to %v",
				l.Fault, l.load(), n, len(l.Took), l.Bound, l.At(1).Round(time.Millisecond)))
		}
		if l.Early > 0 {
			errs = append(errs, fmt.Errorf("R23: %s, %s: %d votes counted before the quarantine can have been over", l.Fault, l.load(), l.Early))
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

// String returns a table.
func (r Recovery) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "from heal to counted vote: %d nodes, %d clients, %d callers where loaded\n", r.Nodes, r.Clients, r.Callers)
	w := newTable(&b)
	fmt.Fprint(w, "  node was\t\ttimes\tmedian\tp99\tgreatest\tbound\tover\tan attempt\t\n")
	for _, l := range r.Lines {
		fmt.Fprintf(w, "  %s\t%s\t%d\t%v\t%v\t%v\t%v\t%d\t%v\t\n", l.Fault, l.load(), len(l.Took),
			tenths(l.At(0.5)), tenths(l.At(0.99)), tenths(l.At(1)), l.Bound, l.over(), tenths(l.Attempt))
	}
	w.Flush()
	return b.String()
}

func tenths(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// MeasureRecovery makes a fault at a node of five, ends it, and measures until
// the node's vote counts. Two other nodes hold the resource in question for
// another holder, so that it can be granted only with this node's vote, and
// each client asks for it about once a millisecond: a vote counts when a lock
// that needs it is granted. The time runs from the moment before the fault is
// ended; for a node that starts anew, from its first answer.
//
// Each time begins with fresh clients. Otherwise the bound on connects a minute
// (R26) would be measured.
func MeasureRecovery(ctx context.Context, options RecoveryOptions) (Recovery, error) {
	o := options.complete()
	if min(o.Repeats, o.Clients, o.Callers) < 1 {
		return Recovery{}, errors.New("faults: recovery: a number is too small")
	}
	all := Recovery{Nodes: nodes, Clients: o.Clients, Callers: o.Callers}
	for _, name := range o.Faults {
		for _, loaded := range []bool{false, true} {
			line, err := o.measure(ctx, name, loaded)
			if err != nil {
				return all, fmt.Errorf("faults: recovery: %s: %w", name, err)
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
func (o RecoveryOptions) measure(ctx context.Context, name string, loaded bool) (RecoveryLine, error) {
	l := RecoveryLine{Fault: name, Loaded: loaded, Bound: recoveryOfRefused}
	r, err := o.newRecoverer(name)
	if err != nil {
		return l, err
	}
	defer r.site.close()
	switch r.loaded = loaded; name {
	case Stopped:
		l.Bound = recoveryOfStopped
	case Forgotten:
		l.Bound += r.quarantine()
	}
	var attempts []time.Duration
	for range o.Repeats {
		votes, err := r.once(ctx)
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

// A recoverer makes a fault and ends it, again and again.
type recoverer struct {
	options RecoveryOptions
	fault   fault
	loaded  bool
	maxTTL  time.Duration // 0 but for Forgotten
	site    *site

	// What tests break, to see that it is found: the clients' configuration;
	// free makes the lock available without the node; lag ends the fault late.
	spoil func(*redlock.Config)
	free  bool
	lag   time.Duration
}

// newRecoverer starts a site. Close it.
func (o RecoveryOptions) newRecoverer(name string) (*recoverer, error) {
	r := &recoverer{options: o}
	if name == Forgotten {
		name, r.maxTTL = Killed, o.MaxTTL
	}
	var err error
	if r.fault, err = find(name); err != nil {
		return nil, err
	}
	r.site, err = newSite(r.fault)
	return r, err
}

// quarantine is how long a node is watched: MaxTTL, the drift and a margin
// (R23).
func (r *recoverer) quarantine() time.Duration {
	return r.maxTTL + r.maxTTL/100 + 5*time.Millisecond
}

// A vote is the first one of the node that counted with one client.
type vote struct {
	at      time.Time
	took    time.Duration // since the fault ended
	attempt time.Duration // of which the attempt itself
	early   bool          // it must not have counted yet (R23)
}

const (
	// recoveryWait bounds one time, so that a node that never comes back ends
	// the measurement.
	recoveryWait = time.Minute
	recoveryKey  = "recovery:"
)

// once makes the fault, ends it, and returns the node's first vote for each
// client.
func (r *recoverer) once(ctx context.Context) ([]vote, error) {
	ctx, cancel := context.WithTimeout(ctx, recoveryWait)
	defer cancel()
	config := redlock.Config{MaxTTL: r.maxTTL, Forgetful: r.maxTTL == 0}
	if r.spoil != nil {
		r.spoil(&config)
	}
	clients, err := r.site.clients(ctx, r.options.Clients, config)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	if r.loaded {
		l := newLoad(clients, r.options.Callers, 1)
		defer l.end()
		if err := pauseFor(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
	if err := r.occupy(clients); err != nil {
		return nil, err
	}
	if err := r.fault.on(r.site); err != nil {
		return nil, err
	}
	// From now on each client asks all the time, as a busy client does.
	votes := make([]vote, len(clients))
	var asking sync.WaitGroup
	for i, c := range clients {
		asking.Go(func() { votes[i] = r.ask(ctx, c, i) })
	}
	err = pauseFor(ctx, r.away())
	first, healed, errHeal := r.heal()
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
		v.early = r.maxTTL > 0 && v.at.Sub(first) < r.quarantine()
		v.took = max(0, v.at.Sub(healed))
	}
	return votes, nil
}

// occupy gives each client's resource to another holder on as many nodes as a
// quorum can do without.
func (r *recoverer) occupy(clients []*redlock.Client) error {
	if r.free {
		return nil
	}
	for i := range clients {
		for _, server := range r.site.servers[:nodes/2] {
			if _, err := server.Do("SET", fmt.Sprint(recoveryKey, i), "another", "PX", "600000"); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask asks until the lock is granted. It returns the zero vote if it was not.
func (r *recoverer) ask(ctx context.Context, c *redlock.Client, i int) (v vote) {
	resource, ttl := fmt.Sprint(recoveryKey, i), cmp.Or(r.maxTTL, 5*time.Second)
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

// away draws how long the node is away this time.
func (r *recoverer) away() time.Duration {
	most := r.options.Away
	if r.fault.name == Stopped || r.fault.name == Held {
		most /= 2
	}
	return 50*time.Millisecond + rand.N(most)
}

// heal ends the fault. It returns the first moment at which the node can have
// voted, and the one from which the time runs.
func (r *recoverer) heal() (first, healed time.Time, err error) {
	first = time.Now()
	time.Sleep(r.lag)
	err = r.fault.heal(r.site)
	if r.fault.name == Killed {
		return first, time.Now(), err
	}
	return first, first, err
}
