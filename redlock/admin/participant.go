package admin

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
)

// A Participant is one of those that share a resource or wait for it: a reader,
// the holder of a permit, or a waiter in the queue of a fair lock.
type Participant struct {
	// Holder is the fingerprint of the token, as in Inspection. A waiter has no
	// token yet: this identifies its call during the wait.
	Holder string `json:"holder"`
	// Owner is the redlock.Config.Owner of the client, and Label the
	// redlock.HoldOptions.Label of the lock; "" without one, or for a waiter.
	Owner string `json:"owner,omitempty"`
	Label string `json:"label,omitempty"`
	// Since is as in Inspection. A waiter has its ticket from that time, or
	// from a moment later.
	Since time.Time `json:"since,omitzero"`
	// Number is that of the permit, from 0 on; or the place in the list, from 1
	// on.
	Number int `json:"number"`
	// TTL is how long a quorum keeps the participant without renewal, as in
	// Inspection. Below a quorum, it is how long one node does. A waiter renews
	// its place several times a second.
	TTL time.Duration `json:"-"`
	// Nodes are the indices in Inspection.Nodes of the nodes with it. Below a
	// quorum, the participant is coming or leaving, or a remain of a failed
	// attempt.
	Nodes []int `json:"nodes"`
}

// MaxParticipants is the most readers, permits and waiters, of each, that an
// Inspection takes from one node.
const MaxParticipants = 1024

// lookPage is how many participants the node's scripts return: no reply is long
// (R32).
const lookPage = 20

var (
	lookReadersScript = wire.NewScript(lua.LookReaders)
	lookPermitsScript = wire.NewScript(lua.LookPermits)
	lookQueueScript   = wire.NewScript(lua.LookQueue)
)

// A roll is what one node said of the participants of one kind. Of permits, a
// is the least and b the most in the node's record; of others, a is whether a
// writer waits, and b how many there may be.
type roll struct {
	a, b int
	seen map[sight]time.Duration // the time that each has left
}

// A sight tells participants apart: the number of the permit, or the ticket
// of the waiter, and who it is.
type sight struct {
	number int64
	who
}

// A rollKind is a kind of participants, with its script.
type rollKind struct {
	script   *wire.Script
	numbered bool   // each has a number of its own
	ticketed bool   // the number is a ticket, the time in µs
	rolls    []roll // of the nodes
	// command returns the script's call that passes over so many.
	command func(skip int) []byte
}

// Where the kinds are in the result of rollsOf.
const (
	ofReaders = iota
	ofPermits
	ofQueue
)

// rollsOf returns the kinds of the resource with a key, on n nodes, with
// nothing seen yet.
func rollsOf(key string, n int) [3]*rollKind {
	of := func(s *wire.Script, numbered bool, args ...string) *rollKind {
		call := append([]string{"EVALSHA", s.Digest}, args...)
		return &rollKind{script: s, numbered: numbered, rolls: make([]roll, n), command: func(skip int) []byte {
			return resp.AppendCommand(nil, append(slices.Clip(call), strconv.Itoa(skip))...)
		}}
	}
	kinds := [3]*rollKind{
		ofReaders: of(&lookReadersScript, false, "2", key+wire.ReadersSuffix, key+wire.MarkSuffix),
		ofPermits: of(&lookPermitsScript, true, "1", key+wire.PermitsSuffix),
		ofQueue:   of(&lookQueueScript, false, "4", key+wire.QueueSuffix, key+wire.LeasesSuffix, key, key+wire.TurnSuffix),
	}
	kinds[ofQueue].ticketed = true
	return kinds
}

// ask returns the question for the participants of one page.
func (k *rollKind) ask(page int) question {
	return question{command: k.command(page * lookPage), take: func(node int, v resp.Value) error {
		return k.rolls[node].read(v)
	}}
}

// pages returns how many pages there are, by the nodes that answered.
func (k *rollKind) pages(errs []error) int {
	most := 0
	for i := range k.rolls {
		if errs[i] == nil {
			most = max(most, k.rolls[i].b)
		}
	}
	return (min(most, MaxParticipants) + lookPage - 1) / lookPage
}

// morePages returns the questions for all pages but the first.
func morePages(rolls [3]*rollKind, errs []error) (more []question) {
	for _, k := range rolls {
		for page := 1; page < k.pages(errs); page++ {
			more = append(more, k.ask(page))
		}
	}
	return more
}

// read takes a script's reply (R16): two numbers, and three elements for each
// participant.
func (r *roll) read(v resp.Value) error {
	if isWrongType(v) || v.IsNull() && v.Type() != resp.Array {
		return nil // there are none, or the key is another program's
	}
	all := slices.Collect(v.Elements())
	ok := v.Type() == resp.Array && len(all)%3 == 2
	number := func(e resp.Value, least, most int64) int64 {
		n, isNumber := e.Int64()
		ok = ok && isNumber && n >= least
		return min(n, most)
	}
	if ok {
		r.a, r.b = int(number(all[0], 0, math.MaxInt32)), int(number(all[1], 0, math.MaxInt32))
	}
	for i := 2; ok && i < len(all); i += 3 {
		one := sight{number: number(all[i], 0, math.MaxInt64)}
		left := time.Duration(number(all[i+1], -1, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
		if left < 0 {
			left = NoExpiry
		}
		ok = ok && all[i+2].Type() == resp.BulkString && !all[i+2].IsNull() && len(all[i+2].Bytes()) <= pure.LongestShown
		one.who = whoOf(all[i+2].Bytes())
		if r.seen == nil {
			r.seen = make(map[sight]time.Duration)
		}
		if len(r.seen) < MaxParticipants {
			r.seen[one] = left
		}
	}
	if !ok {
		return fmt.Errorf("%w: type %q to the look at the participants", multiplex.ErrUnexpected, v.Type())
	}
	return nil
}

// A summary collects a participant from the rolls.
type summary struct {
	sight
	times []time.Duration
	nodes []int
}

// left is Participant.TTL.
func (s *summary) left(quorum int) time.Duration { return s.times[min(quorum, len(s.times))-1] }

// list merges what the nodes reported, in the given order, and reports whether
// one may have more than it said. It drops nothing: a lying node could
// otherwise crowd out the rest.
func (k *rollKind) list(errs []error, quorum int, order func(a, b *summary) int) (all []Participant, cut bool) {
	found := make(map[sight]*summary)
	for i := range k.rolls {
		if errs[i] != nil {
			continue
		}
		cut = cut || k.rolls[i].b > MaxParticipants
		for who, left := range k.rolls[i].seen {
			if found[who] == nil {
				found[who] = &summary{sight: who}
			}
			found[who].times = append(found[who].times, left)
			found[who].nodes = append(found[who].nodes, i)
		}
	}
	ordered := slices.Collect(maps.Values(found))
	for _, s := range ordered {
		slices.SortFunc(s.times, longestFirst)
	}
	slices.SortFunc(ordered, func(a, b *summary) int {
		return cmp.Or(order(a, b), strings.Compare(a.holder, b.holder), strings.Compare(a.Owner, b.Owner), strings.Compare(a.Label, b.Label))
	})
	for i, s := range ordered {
		p := Participant{Holder: s.holder, Owner: s.Owner, Label: s.Label, Since: s.since, Number: i + 1, TTL: s.left(quorum), Nodes: s.nodes}
		switch {
		case k.numbered:
			p.Number = int(min(s.number, math.MaxInt32))
		case k.ticketed:
			p.Since = time.UnixMicro(min(s.number, pure.MostNumber)).Truncate(time.Second)
		}
		all = append(all, p)
	}
	return all, cut
}

// addParticipants adds the reports of the answering nodes.
func (all *Inspection) addParticipants(rolls [3]*rollKind, errs []error) {
	readers, permits, queue := rolls[ofReaders], rolls[ofPermits], rolls[ofQueue]
	quorum := multiplex.Quorum(len(errs))
	var cut [3]bool
	all.Readers, cut[0] = readers.list(errs, quorum, func(a, b *summary) int {
		held := func(s *summary) int { return min(len(s.nodes), quorum) }
		return cmp.Or(cmp.Compare(held(b), held(a)), longestFirst(a.left(quorum), b.left(quorum)))
	})
	all.PermitsHeld, cut[1] = permits.list(errs, quorum, func(a, b *summary) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(len(b.nodes), len(a.nodes)))
	})
	all.Queue, cut[2] = queue.list(errs, quorum, func(a, b *summary) int { return cmp.Compare(a.number, b.number) })
	all.Cut = slices.Contains(cut[:], true)

	waits, answered := 0, 0
	var least []int
	for i, err := range errs {
		if err != nil {
			continue
		}
		answered++
		if waits += min(readers.rolls[i].a, 1); permits.rolls[i].a > 0 {
			all.Nodes[i].Permits = min(permits.rolls[i].a, redlock.MaxPermits)
			least = append(least, all.Nodes[i].Permits)
		}
	}
	all.WriterWaits = waits >= quorum
	if len(least) > 0 {
		slices.SortFunc(least, func(a, b int) int { return cmp.Compare(b, a) })
		all.Permits = least[min(quorum, len(least))-1]
		all.FreePermits = all.free(answered, quorum)
	}
}

// free returns FreePermits.
func (all *Inspection) free(answered, quorum int) int {
	on := make([]multiplex.Set, all.Permits) // the nodes that have it taken
	held := 0
	for _, p := range all.PermitsHeld {
		for _, node := range p.Nodes {
			if p.Number < len(on) {
				on[p.Number] = on[p.Number].Add(node)
			}
		}
		if len(p.Nodes) >= quorum {
			held++
		}
	}
	free := 0
	for _, nodes := range on {
		if answered-nodes.Len() >= quorum {
			free++
		}
	}
	return max(0, min(free, all.Permits-held))
}

// shared returns how many nodes have the commonest reader or permit, and which
// have any.
func (all *Inspection) shared() (most int, has []bool) {
	has = make([]bool, len(all.Nodes))
	for _, list := range [][]Participant{all.Readers, all.PermitsHeld} {
		for _, p := range list {
			most = max(most, len(p.Nodes))
			for _, i := range p.Nodes {
				has[i] = true
			}
		}
	}
	return most, has
}
