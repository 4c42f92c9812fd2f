package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/bench"
	records "github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
)

// kind is the kind of lock that callers take; zero is the plain one.
type kind struct {
	fenced  bool // with a number that only increases
	several int  // resources at once, 0 for one
	fair    bool // callers of all processes are served in order
	rw      bool // readers and writers
	reads   int  // the share of readers in percent
	permits int  // of the semaphore that each resource is, 0 for none
}

// UnmarshalText reads "plain", "fenced", "fair", "multi:3", "rw:90" or
// "permits:5".
func (k *kind) UnmarshalText(text []byte) error {
	name, number, counted := strings.Cut(string(text), ":")
	n, err := strconv.Atoi(number)
	switch {
	case name == "plain" && !counted:
		*k = kind{}
	case name == "fenced" && !counted:
		*k = kind{fenced: true}
	case name == "fair" && !counted:
		*k = kind{fair: true}
	case name == "multi" && err == nil && n > 1 && n <= redlock.MaxResources:
		*k = kind{several: n}
	case name == "rw" && err == nil && n >= 0 && n <= 100:
		*k = kind{rw: true, reads: n}
	case name == "permits" && err == nil && n > 0 && n <= redlock.MaxPermits:
		*k = kind{permits: n}
	default:
		return fmt.Errorf(`want "plain", "fenced", "fair", "multi:N" for locks on 2 to %d resources each, "rw:PERCENT" with the share `+
			`of readers, or "permits:N" for semaphores of 1 to %d`, redlock.MaxResources, redlock.MaxPermits)
	}
	return nil
}

// String returns the form that UnmarshalText reads.
func (k kind) String() string {
	switch {
	case k.fenced:
		return "fenced"
	case k.fair:
		return "fair"
	case k.several > 0:
		return "multi:" + strconv.Itoa(k.several)
	case k.rw:
		return "rw:" + strconv.Itoa(k.reads)
	case k.permits > 0:
		return "permits:" + strconv.Itoa(k.permits)
	}
	return "plain"
}

// form returns the form of an attempt's lock in the history.
func (k kind) form(reads bool) records.Form {
	switch {
	case k.fair:
		return records.FairForm
	case k.permits > 0:
		return records.PermitForm
	case k.rw && reads:
		return records.ReadForm
	case k.rw:
		return records.WriteForm
	}
	return records.PlainForm
}

// validateKind refuses a kind that there are too few resources for, or that not
// every implementation has.
func (f *flags) validateKind() error {
	if f.Kind == (kind{}) {
		return nil
	}
	if f.Keys < f.Kind.several {
		return fmt.Errorf("--kind %s needs --keys of at least %d", f.Kind, f.Kind.several)
	}
	for _, name := range f.Impl {
		if !strings.HasPrefix(name, "redlock") {
			return fmt.Errorf("--kind %s: only --impl redlock has such locks", f.Kind)
		}
	}
	return nil
}

// pick chooses the resources of the next attempt.
func (c *caller[L]) pick() {
	c.reads = c.flags.Kind.rw && c.random.IntN(100) < c.flags.Kind.reads
	c.form = c.flags.Kind.form(c.reads)
	c.picked = c.picked[:0]
	if c.choose == nil {
		c.picked = append(c.picked, c.id)
		return
	}
	several := max(1, c.flags.Kind.several)
	for tries := 0; len(c.picked) < several && tries < mostChoices*several; tries++ {
		c.add(c.choose())
	}
	// A steep law chooses hardly any but the first.
	for i := 0; len(c.picked) < several; i++ {
		c.add(i)
	}
	c.names = c.names[:0]
	for _, i := range c.picked {
		c.names = append(c.names, c.resources[i])
	}
}

// mostChoices bounds how often a caller chooses, for each of its resources.
const mostChoices = 100

// add picks a resource, unless it is picked already.
func (c *caller[L]) add(i int) {
	if !slices.Contains(c.picked, i) {
		c.picked = append(c.picked, i)
	}
}

// once and again are TryAcquire and Acquire of what was picked.
func (c *caller[L]) once(ctx context.Context) (L, error) {
	switch k := c.flags.Kind; {
	case k.several > 0, c.form != records.PlainForm:
		return leaseOf[L](c.kindred().TryAcquire(ctx, c.flags.TTL))
	}
	return c.locker.TryAcquire(ctx, c.resources[c.picked[0]], c.flags.TTL)
}

func (c *caller[L]) again(ctx context.Context) (L, error) {
	switch k := c.flags.Kind; {
	case k.several > 0, c.form != records.PlainForm:
		return leaseOf[L](c.kindred().Acquire(ctx, c.flags.TTL))
	}
	return c.locker.Acquire(ctx, c.resources[c.picked[0]], c.flags.TTL)
}

// A kindLocker has the kinds of locks that are no plain ones.
type kindLocker interface {
	All(names ...string) redlock.Locker
	Fair(name string) redlock.Locker
	Semaphore(name string, permits int) redlock.Locker
	RW(name string) redlock.RWLock
}

var _ kindLocker = (*redlock.Client)(nil)

// kindred returns what acquires the lock that was picked.
func (c *caller[L]) kindred() redlock.Locker {
	client, name := any(c.locker).(kindLocker), c.resources[c.picked[0]]
	switch k := c.flags.Kind; {
	case k.several > 0:
		return client.All(c.names...)
	case k.fair:
		return client.Fair(name)
	case k.rw && c.reads:
		return client.RW(name).Read()
	case k.rw:
		return client.RW(name).Write()
	}
	kept, ok := c.semaphores[c.picked[0]]
	if !ok { // it remembers which permit was free
		kept = client.Semaphore(name, c.flags.Kind.permits)
		c.semaphores[c.picked[0]] = kept
	}
	return kept
}

// leaseOf returns the lock as a caller's lease, which allocates: such locks do
// in any case.
func leaseOf[L bench.Lease](lock redlock.Lock, err error) (L, error) {
	return any(lock).(L), err
}

// placeTime is for how long a place in a queue is certain after a question: half
// of a lease, of which a node leaves three quarters at least.
const placeTime = 250 * time.Millisecond

// askedKey is the key of a context's function that takes its attempts.
type askedKey struct{}

// traceAsked is the tracer of clients with fair locks, whose history has the
// places of callers that wait.
var traceAsked = &redlock.Tracer{AttemptDone: func(ctx context.Context, a redlock.CallInfo) {
	if asked, ok := ctx.Value(askedKey{}).(func(context.Context, redlock.CallInfo)); ok {
		asked(ctx, a)
	}
}}

// asked notes that a quorum of nodes has the caller in the queue.
func (c *caller[L]) asked(ctx context.Context, a redlock.CallInfo) {
	held := (*redlock.HeldError)(nil)
	if !errors.As(a.Err, &held) || held.Admitted < c.quorum {
		return
	}
	until := a.Start.Add(placeTime)
	if leaves, ok := ctx.Deadline(); ok && leaves.Before(until) {
		until = leaves
	}
	at := c.clock.now()
	c.write(entry{at: at, client: c.id, attempt: c.attempts, event: records.Queued, until: c.clock.at(until)})
}
