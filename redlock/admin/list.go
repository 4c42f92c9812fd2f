package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/inside"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
)

// ListOptions bound a List, and the load that it puts on the nodes. The zero
// value works.
type ListOptions struct {
	// Prefix is what the names of the resources begin with, behind
	// redlock.Config.Prefix. If zero, all are listed.
	Prefix string
	// Limit is how many keys are looked at, of all that begin with both
	// prefixes, and how many holders and waiters are listed. Most of those that redlock keeps beside locks do not count, but
	// those of fencing numbers do. If zero or less, DefaultListLimit.
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

const (
	defaultListPage = 1000
	// mostNames is how many bytes of names a reply has at most (R32).
	mostNames = 60_000
)

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
		l.pages = append(l.pages, unopened)
		l.errs = append(l.errs, ctx.Err())
	}
	err := l.run()
	l.finish()
	l.all.Cut = l.all.Cut || err != nil
	return l.all, err
}

func (o ListOptions) withDefaults() ListOptions {
	o.Limit, o.Page, o.Pause = positive(o.Limit, DefaultListLimit), positive(o.Page, defaultListPage), positive(o.Pause, DefaultListPause)
	return o
}

func positive[T ~int | ~int64](given, otherwise T) T {
	if given <= 0 {
		return otherwise
	}
	return given
}

// A lister goes through the nodes' keys.
type lister struct {
	*inspector
	options ListOptions
	within  context.Context
	all     Listing
	pages   []page          // of the nodes
	errs    []error         // why a node is missing
	seen    map[string]bool // names without the prefix
}

// A page is where a node goes on.
type page struct {
	cursor string
	done   bool
}

// unopened is the page of a node that has answered none.
var unopened = page{cursor: "0"}

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
	for _, p := range l.pages {
		if p != unopened {
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

var scanScript = wire.NewScript(lua.Scan)

// scan asks each node for its next page, and returns what is new.
func (l *lister) scan() (found []*sighting) {
	pattern := globbed(l.config.Prefix+l.options.Prefix) + "*"
	load := scanScript.Load()
	commands := func(node int) [][]byte {
		p := &l.pages[node]
		if p.done || l.errs[node] != nil {
			return nil
		}
		return [][]byte{load, resp.AppendCommand(nil, "EVALSHA", scanScript.Digest, "0", p.cursor, pattern, strconv.Itoa(l.options.Page),
			strconv.Itoa(len(l.config.Prefix)), strconv.Itoa(longestName), strconv.Itoa(mostNames))}
	}
	within, cancel := l.limitEach()
	defer cancel()
	refusals := make([]error, len(l.errs))
	errs := l.Group().QueryEach(within, 2, commands, func(node, i int, v resp.Value) error {
		switch {
		case v.IsError():
			refusals[node] = cmp.Or(refusals[node], refusedScan(v))
		case i == 1:
			names, missing, err := l.pages[node].read(v)
			l.all.Cut = l.all.Cut || missing
			for _, name := range names {
				if s := l.sightingOf(name); s != nil {
					found = append(found, s)
				}
			}
			l.all.Nodes[node].Keys += len(names)
			return err
		}
		return nil
	})
	l.miss(errs)
	l.miss(refusals)
	return found
}

// longestName is that of a key behind the prefix: a waiter's.
const longestName = 1024 + len(wire.WaiterSuffix) + pure.TokenText

// globbed returns a text as a pattern of SCAN that matches it alone.
func globbed(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// refusedScan returns why a node does not list its keys.
func refusedScan(v resp.Value) error {
	class := conn.ClassOf(v)
	if class != conn.ClassNoPerm {
		return &multiplex.RefusalError{Class: class}
	}
	return &multiplex.PreflightError{
		Check: "permissions", Found: "the user may not run SCAN, which lists the keys", Advice: "ACL SETUSER <user> +scan", Err: multiplex.ErrPermissions,
	}
}

// read takes the reply of scan.lua. missing reports that names are left out.
func (p *page) read(v resp.Value) (names []string, missing bool, err error) {
	parts := slices.Collect(v.Elements())
	ok := v.Type() == resp.Array && len(parts) == 3 && parts[0].Type() == resp.BulkString && parts[2].Type() == resp.BulkString
	if ok {
		p.cursor = string(parts[0].Bytes())
		p.done = p.cursor == "0"
		more, isNumber := parts[1].Int64()
		missing = more != 0
		names, ok = separate(string(parts[2].Bytes()))
		ok = ok && isNumber
	}
	if !ok {
		return nil, false, fmt.Errorf("%w: type %q to the list of keys", multiplex.ErrUnexpected, v.Type())
	}
	return names, missing, nil
}

// separate returns the names in a text that has each behind its length and a
// colon.
func separate(text string) (names []string, ok bool) {
	for text != "" {
		digits, rest, _ := strings.Cut(text, ":")
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || int(n) > min(len(rest), longestName) {
			return nil, false
		}
		names, text = append(names, rest[:n]), rest[n:]
	}
	return names, true
}

// limitEach bounds one round trip, so that a node that hangs does not hold up
// the listing.
func (l *lister) limitEach() (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.within, cmp.Or(l.config.NodeTimeout, inspectTimeout))
}

// miss notes which nodes are missing.
func (l *lister) miss(errs []error) {
	for i, err := range errs {
		l.errs[i] = cmp.Or(l.errs[i], err)
	}
}

// A sighting is a name that a node listed, and the look at what it stands for.
type sighting struct {
	look
	kind ListedKind
	own  []bool // which nodes have a lock's value
	odd  bool   // a node has something else
}

// sightingOf returns what a name without the prefix stands for; nil if it is
// known already, or beyond the limit, or that of a key beside a lock.
func (l *lister) sightingOf(name string) *sighting {
	s := sightingOf(name)
	switch {
	case s == nil || l.seen[name]:
		return nil
	case len(l.seen) >= l.options.Limit:
		l.all.Cut = true
		return nil
	}
	l.seen[name] = true
	s.own = make([]bool, len(l.errs))
	return s
}

func sightingOf(name string) *sighting {
	if name == "" || name == wire.SealName || name == wire.OpeningName || name == wire.RecordName || strings.HasPrefix(name, wire.TrialName) {
		return nil
	}
	resource, _, beside := strings.Cut(name, wire.Reserved)
	s := &sighting{kind: KindLock}
	s.Inspection = &Inspection{Resource: resource}
	if !beside {
		s.numbered, s.note = true, s.judgeValue
		return s
	}
	switch name[len(resource):] {
	case wire.ReadersSuffix:
		s.kind, s.wants[ofReaders] = KindReader, true
	case wire.PermitsSuffix:
		s.kind, s.wants[ofPermits] = KindPermit, true
	case wire.QueueSuffix:
		s.kind, s.wants[ofQueue] = KindWaiter, true
	default:
		return nil
	}
	return s
}

// judgeValue notes whether a node's key is a lock's. A fencing number is
// neither that nor another program's.
func (s *sighting) judgeValue(node int, v resp.Value) {
	isText := v.Type() == resp.BulkString && !v.IsNull()
	value := string(v.Bytes())
	switch _, ok := pure.ParseValue(value); {
	case isText && ok:
		s.own[node] = true
	case isText && strings.HasSuffix(s.Resource, wire.FenceSuffix) && strings.Trim(value, "0123456789") == "":
	case isText || isWrongType(v):
		s.odd = true
	}
}

// look looks at what names stand for, and adds what holds a resource.
func (l *lister) look(sightings []*sighting) {
	var looks []*look
	for _, s := range sightings {
		looks = append(looks, &s.look)
	}
	within, cancel := l.limitEach()
	defer cancel()
	l.miss(l.askFor(within, looks...))
	for _, s := range sightings {
		l.add(s)
	}
}

// add adds what a look has found, by the word of the nodes that have not failed
// so far.
func (l *lister) add(s *sighting) {
	quorum := multiplex.Quorum(len(l.errs))
	switch found := s.holders(l.errs, quorum); {
	case s.kind == KindReader:
		l.addAll(s, s.Readers)
	case s.kind == KindPermit:
		l.addAll(s, s.PermitsHeld)
	case s.kind == KindWaiter:
		l.addAll(s, s.Queue)
	case len(found) > 0:
		l.addAll(s, found)
	case s.odd:
		l.all.Others++
	}
	l.all.Cut = l.all.Cut || s.Cut
}

// holders returns those that have the key of a resource.
func (s *sighting) holders(errs []error, quorum int) []Participant {
	all := rollKind{rolls: make([]roll, len(errs))}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Holder != "" && s.own[i] {
			all.rolls[i].seen = map[sight]time.Duration{{who: n.who()}: n.TTL}
		}
	}
	found, _ := all.list(errs, quorum, func(a, b *summary) int { return cmp.Compare(len(b.nodes), len(a.nodes)) })
	return found
}

// addAll adds the holders of a resource, or those that wait for it.
func (l *lister) addAll(s *sighting, all []Participant) {
	missing := 0
	for _, err := range l.errs {
		if err != nil {
			missing++
		}
	}
	for _, p := range all {
		p.Nodes = slices.DeleteFunc(p.Nodes, func(i int) bool { return l.errs[i] != nil })
		switch {
		case len(p.Nodes) == 0:
			continue
		case len(l.all.Locks) >= l.options.Limit:
			l.all.Cut = true
			return
		}
		lock := ListedLock{Resource: s.Resource, Kind: s.kind, State: stateOf(s.kind, len(p.Nodes), missing, len(l.errs)), Participant: p}
		if s.kind == KindLock {
			lock.Fence = s.fenceOf(p.Holder)
			if p.Since.IsZero() && lock.Fence > 0 {
				lock.Since = time.UnixMicro(int64(min(lock.Fence, uint64(pure.MostNumber)))).Truncate(time.Second)
			}
		}
		l.all.Locks = append(l.all.Locks, lock)
	}
}

// stateOf judges what so many nodes have, if so many others did not answer.
func stateOf(kind ListedKind, have, missing, nodes int) ListedState {
	switch quorum := multiplex.Quorum(nodes); {
	case have >= quorum && kind == KindWaiter:
		return ListedWaiting
	case have >= quorum:
		return ListedHeld
	case have+missing >= quorum:
		return ListedUnclear
	default:
		return ListedPartial
	}
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
