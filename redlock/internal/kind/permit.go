package kind

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// A permit is one of a semaphore's. Each permit is a lock of its own, with a
// number: so there are never more holders than permits. A majority with counted
// holders would admit more. A node has all of them under one key. If it refuses
// one, it names free ones, and the client asks for one of these.
type permit struct {
	single
	kinds   *Kinds
	permits int
	// mark is how long the mark of a waiting caller stands; 0 without a wait.
	mark   time.Duration
	spares *spares
	marked *permit // of a caller that waits
}

// MaxPermits is the most permits of a semaphore.
const MaxPermits = 1024

// LongestPause is the longest wait between two attempts of a caller.
const LongestPause = time.Second

// PermitMark is how long the mark of a waiting caller stands. A refused attempt
// sets it anew only if less than three quarters of it are left. So after each
// attempt at least three quarters are left. They must be more than the time to
// the caller's next one: LongestPause, and half a second for pauses and slow
// nodes.
const PermitMark = (LongestPause + 500*time.Millisecond) * 4 / 3

// mostPermits bounds how many callers of one client ask the nodes for permits
// of one semaphore at one time, after others got some.
const mostPermits = 8

var (
	permitTraits = Traits{
		Serves: Permitted, Needs: Permitted, Many: true, Contested: true,
		Seats: 1, MostSeats: mostPermits, HandsOver: true,
	}
	onlyPermitTraits = Traits{
		Serves: Permitted, Needs: Permitted, Contested: true, Seats: 1, MostSeats: 1, HandsOver: true,
	}
)

// Permit returns the kind of a semaphore's permits. What it makes shares the
// numbers of free permits.
func (k *Kinds) Permit(permits int) Kind {
	p := permit{kinds: k, permits: permits, spares: &spares{}}
	waits := p
	waits.mark, waits.marked = PermitMark, &waits
	p.marked = &waits
	return &p
}

func (p *permit) Traits() *Traits {
	if p.permits > 1 {
		return &permitTraits
	}
	return &onlyPermitTraits
}

func (p *permit) Key(name string) Key { return Key{use: Permitted, name: name, permits: p.permits} }

func (p *permit) Check(string) (resource, problem string) {
	if p.permits < 1 || p.permits > MaxPermits {
		return "", fmt.Sprintf("a semaphore of %d permits: there must be 1 to %d", p.permits, MaxPermits)
	}
	return "", ""
}

func (p *permit) waiting() Kind { return p.marked }

func (p *permit) freed(number int64) { p.spares.give(number, p.permits) }

// permitRounds is how many permits an attempt asks for, one after another, as
// long as nodes name free ones.
const permitRounds = 4

// Attempt is an attempt to get any permit: first one given back by this client,
// and then one free by the word of most nodes. A permit may be free on one node
// and held on a quorum. The last round leaves the mark of a waiting caller on
// such nodes too: without it, they would tell the caller to ask again at once.
func (p *permit) Attempt(ctx context.Context, r Rounds, g *Grant) (*Refusal, error) {
	g.Number = p.spares.take()
	if g.Number < 0 {
		g.Number = rand.Int64N(int64(max(1, p.permits)))
	}
	for round := 1; ; round++ {
		g.Final = round == permitRounds
		refusal, err := r.Round(ctx, g)
		if refusal == nil || len(refusal.free) == 0 || g.Final {
			return refusal, err
		}
		g.Number = int64(refusal.free[rand.IntN(len(refusal.free))])
	}
}

// spares are the permits given back by one Locker and not asked for since.
// Other clients may have taken them.
type spares struct {
	mu      sync.Mutex // guards the following
	numbers []int64
}

// give notes a permit before its release.
func (s *spares) give(number int64, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.numbers) < most {
		s.numbers = append(s.numbers, number)
	}
}

// take returns the one given back last, or -1.
func (s *spares) take() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.numbers) - 1
	if last < 0 {
		return -1
	}
	number := s.numbers[last]
	s.numbers = s.numbers[:last]
	return number
}

func (p *permit) Claim(g *Grant, dst []byte) (*multiplex.ClaimKind, multiplex.Encoded) {
	dst = p.call(dst, &wire.AcquirePermit, g, 2, 6)
	dst = wire.Milliseconds(dst, g.TTL)
	dst = wire.Integer(dst, int64(p.permits))
	dst = wire.Integer(dst, g.Number)
	dst = wire.Milliseconds(dst, p.mark)
	final := int64(0)
	if g.Final {
		final = 1
	}
	return lockerKind, multiplex.Encoded{Bytes: wire.Integer(dst, final)}
}

func (p *permit) Extend(g *Grant, dst []byte, ttl, _ time.Duration) (*multiplex.ExtendKind, multiplex.Encoded) {
	dst = p.call(dst, &wire.ExtendPermit, g, 1, 4)
	dst = wire.Milliseconds(dst, ttl)
	dst = wire.Integer(dst, int64(p.permits))
	return extendLockerKind, multiplex.Encoded{Bytes: wire.Integer(dst, g.Number)}
}

func (p *permit) Release(g *Grant, dst []byte) (*multiplex.ReleaseKind, multiplex.Encoded) {
	dst = p.call(dst, &wire.ReleasePermit, g, 2, 2)
	return releaseLockerKind, multiplex.Encoded{Bytes: wire.Integer(dst, g.Number)}
}

// call appends the head of a script with the semaphore's first keys, and the
// value, which is the first of the arguments.
func (p *permit) call(dst []byte, s *wire.Script, g *Grant, keys, arguments int) []byte {
	dst = s.Call(dst, keys, 3+keys+arguments)
	dst = p.kinds.KeyWith(dst, g.Name, wire.PermitsSuffix)
	if keys > 1 {
		dst = p.kinds.KeyWith(dst, g.Name, wire.WantedSuffix)
	}
	return p.kinds.Value(dst, &g.Value)
}

func (p *permit) Hear(s *Said, node, number int, text []byte) {
	if number == 1 {
		s.numbers[node] = 1
		s.free = appendFree(s.free, text, p.permits)
	}
}

func (p *permit) Refusal(s *Said, name string, _ int) bool {
	s.Key = name + wire.WantedSuffix
	s.Refusal.free = mostFree(s.free)
	return true
}

// appendFree appends the numbers in the text of a node, each of them once:
// repeated numbers still come from one node.
func appendFree(all []int, text []byte, permits int) []int {
	others := len(all)
	for number := range bytes.SplitSeq(text, []byte(",")) {
		n, err := strconv.Atoi(string(number))
		if err == nil && n >= 0 && n < permits && !slices.Contains(all[others:], n) {
			all = append(all, n)
		}
	}
	return all
}

// mostFree returns the numbers named by most nodes. all is changed.
func mostFree(all []int) (free []int) {
	slices.Sort(all)
	most := 0
	for len(all) > 0 {
		count := 1
		for count < len(all) && all[count] == all[0] {
			count++
		}
		if count > most {
			most, free = count, free[:0]
		}
		if count == most {
			free = append(free, all[0])
		}
		all = all[count:]
	}
	return free
}
