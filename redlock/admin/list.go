package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/inside"
)

// ListOptions bound a List, and the load that it puts on the nodes. The zero
// value works.
type ListOptions struct {
	// Prefix is what the names of the resources begin with, behind
	// redlock.Config.Prefix. If zero, all are listed.
	Prefix string
	// Limit is how many keys are looked at, of all that begin with both
	// prefixes, and how many holders and waiters are listed. Most keys that
	// redlock keeps beside locks do not count, but those of fencing numbers do.
	// If zero or less, DefaultListLimit.
	Limit int
	// Page is how many keys of its database a node goes through for one page,
	// while it does nothing else: fewer where many have the prefix. If zero or
	// less, 1,000.
	Page int
	// Pause is the time between two pages. If zero or less, DefaultListPause.
	Pause time.Duration
}

// A Listing is what the nodes answered about all resources. As an Inspection,
// it proves nothing, and has a JSON form.
type Listing struct {
	// Locks are what was found, by the names of the resources.
	Locks []ListedLock `json:"locks"`
	// Others is how many keys hold what is no lock of this library. No lock is
	// granted on them.
	Others int `json:"others"`
	// Cut reports that there may be more: Limit was reached, or ctx ended.
	Cut bool `json:"cut,omitempty"`
	// Nodes are in the order of redlock.Config.Nodes.
	Nodes []ListedNode `json:"nodes"`
}

// A ListedNode says how a node took part in a Listing.
type ListedNode struct {
	Addr string `json:"addr"` // without credentials
	Keys int    `json:"keys"` // whose names it reported
	// Err is why not all of its keys are in the listing; otherwise nil.
	Err error `json:"-"`
}

// A ListedLock is one holder of a resource, or one that waits for it.
type ListedLock struct {
	Resource string      `json:"-"` // without the prefix
	Kind     ListedKind  `json:"kind"`
	State    ListedState `json:"state"`
	// Participant describes the holder. For a lock without Owner and Label,
	// Since is the time in Fence, if it has that.
	Participant
	// Resources is how many of the listed resources the lock has, if it is on
	// several.
	Resources int `json:"resources,omitempty"`
	// Fence is as in Inspection, whatever the Config of the client is.
	Fence uint64 `json:"fence,omitempty"`
}

// A ListedKind says how a ListedLock holds its resource.
type ListedKind string

const (
	// KindLock is a lock on the whole resource: a plain one, on one resource or
	// several, a writer, the holder of a fair lock, or a leader. Their keys
	// look alike.
	KindLock   ListedKind = "lock"
	KindReader ListedKind = "reader" // of a read/write lock
	KindPermit ListedKind = "permit" // of a semaphore
	KindWaiter ListedKind = "waiter" // in the queue of a fair lock
)

// A ListedState says what the nodes with a ListedLock amount to.
type ListedState string

const (
	// ListedHeld means a quorum of nodes with the same token.
	ListedHeld ListedState = "held"
	// ListedWaiting is the same for a waiter, which holds nothing.
	ListedWaiting ListedState = "waiting"
	// ListedUnclear means less than a quorum, but nodes that did not answer
	// could complete one.
	ListedUnclear ListedState = "unclear"
	// ListedPartial means less than a quorum, whatever the others say: it holds
	// nothing. It is coming or leaving, or remains of a failed attempt or of a
	// node's restart, until its TTL ends.
	ListedPartial ListedState = "partial"
)

// The defaults of a List.
const (
	DefaultListLimit = 100_000
	DefaultListPause = time.Millisecond
	// DefaultListTime bounds a List whose context has no deadline: a node that
	// lies could have a next page for ever.
	DefaultListTime = time.Minute
)

const defaultListPage = 1000

// List asks all nodes which resources are locked, by whom, since when and for
// how long, as Inspect does for one. It changes nothing. It goes through the
// names of all keys in the database by SCAN, and looks at those with the
// prefix.
//
// What is locked from before the call until its end is in the listing, unless
// it is Cut. What comes or goes meanwhile may be, and a look at several nodes
// is not at one moment: so on a busy deployment some locks are ListedPartial
// for a moment.
//
// A user without the right to SCAN gets no answer from a node; it shows the
// names of all keys, also of those that the user may not read. A node that does
// not answer a page in redlock.Config.NodeTimeout (if zero, 900 ms) is missing
// from then on.
//
// The errors are those of Inspect, also if ctx ends before the last page, and
// what is known is returned with an error. Without a deadline in ctx, that is
// after DefaultListTime. If a quorum had answered a page by then, the
// *redlock.CancelledError has no Last.
func List(ctx context.Context, client *redlock.Client, options ListOptions) (Listing, error) {
	l := &lister{inspector: inspectorOf(ctx, client), options: options.withDefaults(), seen: make(map[string]bool)}
	l.within = ctx
	if _, ok := ctx.Deadline(); !ok {
		within, cancel := context.WithTimeout(ctx, DefaultListTime)
		defer cancel()
		l.within = within
	}
	for _, node := range l.Group().Nodes() {
		l.all.Nodes = append(l.all.Nodes, ListedNode{Addr: node.Addr})
		l.pages, l.begun = append(l.pages, unopened), append(l.begun, false)
		l.errs = append(l.errs, ctx.Err())
	}
	err := l.run()
	l.finish()
	l.all.Cut = l.all.Cut || err != nil
	return l.all, err
}

func (o ListOptions) withDefaults() ListOptions {
	o.Limit, o.Page = cmp.Or(max(o.Limit, 0), DefaultListLimit), cmp.Or(max(o.Page, 0), defaultListPage)
	o.Pause = cmp.Or(max(o.Pause, 0), DefaultListPause)
	return o
}

// A lister goes through the nodes' keys.
type lister struct {
	*inspector
	options ListOptions
	within  context.Context
	all     Listing
	pages   []page          // of the nodes
	begun   []bool          // which have answered one
	errs    []error         // why a node is missing
	seen    map[string]bool // names without the prefix
}

// run goes from page to page. It returns the error of List.
func (l *lister) run() error {
	for l.left() {
		for batch := range slices.Chunk(l.scan(), lookBatch) {
			l.look(batch)
		}
		if err := l.over(); err != nil {
			return err
		}
		if len(l.seen) >= l.options.Limit && (l.all.Cut || l.left()) {
			l.all.Cut = true
			return nil
		}
		if err := l.Sleep(l.within, l.options.Pause); err != nil {
			return err
		}
	}
	return l.over()
}

// over returns why the listing ends, or nil. If ctx has ended, that is the
// fault of the nodes only if less than a quorum has answered a page.
func (l *lister) over() error {
	err := l.judge(l.within, l.errs)
	begun := 0
	for _, answered := range l.begun {
		if answered {
			begun++
		}
	}
	ended := func(err error) bool { return errors.Is(err, l.within.Err()) }
	if l.within.Err() != nil && begun >= multiplex.Quorum(len(l.pages)) && slices.ContainsFunc(l.errs, ended) {
		return inside.Cancelled(l.within, nil)
	}
	return err
}

// left reports whether a node that answers has another page.
func (l *lister) left() bool {
	for i := range l.pages {
		if l.errs[i] == nil && !l.pages[i].done {
			return true
		}
	}
	return false
}

// finish orders what was found, and says which locks are on several resources.
func (l *lister) finish() {
	on := make(map[string]int)
	for _, lock := range l.all.Locks {
		if lock.Kind == KindLock {
			on[lock.Holder]++
		}
	}
	for i := range l.all.Locks {
		if lock := &l.all.Locks[i]; lock.Kind == KindLock && on[lock.Holder] > 1 {
			lock.Resources = on[lock.Holder]
		}
	}
	slices.SortStableFunc(l.all.Locks, func(a, b ListedLock) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(string(a.Kind), string(b.Kind)))
	})
	for i, err := range l.errs {
		l.all.Nodes[i].Err = err
	}
}
