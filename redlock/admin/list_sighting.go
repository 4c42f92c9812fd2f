package admin

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
)

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
	if name == "" || name == wire.SealName || name == wire.RecordName || strings.HasPrefix(name, wire.TrialName) {
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
