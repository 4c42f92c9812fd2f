package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// Tokens records what the masters saw of each attempt. The token of an attempt
// without a lock is never returned to the caller, so what is known about it
// comes from the commands: the connection tells which process sent it, the TTL
// which worker.
type tokens struct {
	world *world

	mu   sync.Mutex // guards the following
	seen map[string]*token
}

// A token is the token of one attempt.
type token struct {
	of       *worker
	key      string
	first    time.Time // when a command with it was first executed
	set      uint16    // the masters that executed its SET
	released uint16    // the masters that executed a release of it
	state    tokenState
	over     time.Time // from when on no key may have it
	// stand is how long before that the masters were told: keys that MinHold
	// keeps are not deleted, but get a shorter TTL.
	stand time.Duration
	// connects identifies the connections to the masters over which the release
	// went; 0 if there was none.
	connects []int
}

// noToken is the token with which handshakes try the scripts.
var noToken = string(make([]byte, len(redlock.Token{})))

type tokenState uint8

const (
	asking  tokenState = iota // the attempt is in progress
	inUse                     // the lock was granted
	dropped                   // the lock is left to its TTL
	isOver                    // its keys must be gone
)

func newTokens(w *world) *tokens { return &tokens{world: w, seen: make(map[string]*token)} }

// watch sees every command before a master executes it.
func (s *tokens) watch(m *master) redistest.Hook {
	return func(conn int, args []string) ([]byte, bool) {
		switch name := strings.ToUpper(args[0]); {
		case name == "HELLO":
			if i := slices.Index(args, "SETNAME"); i > 0 && i+1 < len(args) {
				m.name(conn, args[i+1])
			}
		case name == "SET" && len(args) >= 6:
			s.executed(m, conn, args)
		case name == "EVALSHA" && args[1] == acquireFencedDigest:
			// The keys of the lock, as many last numbers, and the record.
			n, _ := strconv.Atoi(args[2])
			if token := args[3+n]; token != noToken {
				s.executed(m, conn, []string{"SET", strings.Join(args[3:3+n/2], " "), token, args[4+n]})
			}
		case name == "EVALSHA" && args[1] == acquireAllDigest:
			n, _ := strconv.Atoi(args[2])
			s.executed(m, conn, []string{"SET", strings.Join(args[3:3+n], " "), args[3+n], args[4+n]})
		case name == "EVALSHA" && args[1] == releaseAllDigest:
			n, _ := strconv.Atoi(args[2])
			s.released(m, args[3+n])
		case name == "SCRIPT" && strings.EqualFold(args[1], "LOAD") && args[2] == lua.Release:
			m.loaded()
		case name == "EVALSHA" && args[1] == releaseDigest, name == "DELEX" && len(args) == 4, name == "DELIFEQ":
			s.released(m, args[len(args)-1])
		case name == "EVALSHA" && args[1] == releaseManyDigest:
			n, _ := strconv.Atoi(args[2])
			for _, t := range args[3+n:] {
				s.released(m, t)
			}
		case name == "EVALSHA" && args[1] == healDigest:
			s.healed(m, args[4])
		}
		return nil, false
	}
}

func (m *master) name(conn int, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[conn] = name
}

func (m *master) nameOf(conn int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names[conn]
}

// executed records a SET. A token belongs to one attempt, which sends it once
// to each master (R3). Its release never comes first (R8), unless the fence is
// forbidden.
func (s *tokens) executed(m *master, conn int, args []string) {
	ttl, _ := strconv.Atoi(args[len(args)-1])
	k := s.world.workerOf(m.nameOf(conn), ttl%signature)
	if k == nil {
		return // the contest is over
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, bit := s.seen[args[2]], uint16(1)<<m.index
	if t == nil {
		t = &token{}
		s.seen[args[2]] = t
	}
	if t.of == nil { // a master may have seen its release before
		t.of, t.key, t.first = k, args[1], time.Now()
	}
	switch {
	case t.of != k || t.key != args[1] || t.set&bit != 0:
		s.world.violate("R3", "%s: a token came again, by %s", args[1], k.process.name)
	case t.released&bit != 0 && !s.world.draw.has(killForbidden):
		s.world.violate("R8", "%s: a release by %s overtook its SET on node %d", args[1], k.process.name, m.index)
	}
	t.set |= bit
}

// healed records a healing, which may create the key again, and comes before
// the release as the SET does. An extension after the release does no harm.
func (s *tokens) healed(m *master, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.seen[value]; t != nil && t.of != nil && t.released&(1<<m.index) != 0 && !s.world.draw.has(killForbidden) {
		s.world.violate("R8", "%s: a release by %s overtook a healing on node %d", t.key, t.of.process.name, m.index)
	}
}

func (s *tokens) released(m *master, value string) {
	if value == noToken {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.seen[value]; t != nil {
		t.released |= 1 << m.index
		return
	}
	// This master may see the release before any other command with the token.
	s.seen[value] = &token{released: 1 << m.index, state: isOver, over: time.Now()}
}

// attemptDone is called by the tracer: a failed attempt is over, and has queued
// its release.
func (s *tokens) attemptDone(ctx context.Context, a redlock.CallInfo) {
	if a.HandedOver {
		s.world.count("handed over", 1)
	}
	if k, ok := ctx.Value(workerKey{}).(*worker); ok && a.Err != nil {
		s.over(k, 0)
	}
}

// over says that the keys of a worker's attempts and locks must be gone, now or
// after stand.
func (s *tokens) over(k *worker, stand time.Duration) {
	if k.process.handsOver {
		return // another worker may have the lock now
	}
	connects := k.process.connects()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for value, t := range s.seen {
		switch {
		case t.of == k && (t.state == asking || t.state == inUse):
			t.state, t.over, t.stand, t.connects = isOver, now.Add(stand), stand, connects
		case t.state == isOver && now.Sub(t.over) > tokenMemory:
			delete(s.seen, value)
		}
	}
}

// tokenMemory is how long a token is kept after its end: longer than any
// command may be late.
const tokenMemory = 2 * time.Second

// granted, drop and overNow are told what happened to a lock.
func (s *tokens) granted(t redlock.Token) { s.become(t, inUse, nil) }
func (s *tokens) drop(t redlock.Token)    { s.become(t, dropped, nil) }

func (s *tokens) overNow(all []redlock.Token, connects []int) {
	for _, t := range all {
		s.become(t, isOver, connects)
	}
}

func (s *tokens) become(value redlock.Token, state tokenState, connects []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.seen[string(value[:])]; t != nil {
		t.state, t.over, t.connects = state, time.Now(), connects
	}
}

// goneMost is how old a key may be, beyond a round trip, after the end of its
// attempt or lock (R7).
const goneMost = 20 * ms

// look finds orphans: keys whose attempt or lock has been over for longer than
// a round trip and 20 ms, on masters and over lanes without a fault meanwhile.
func (s *tokens) look() {
	for _, m := range s.world.masters {
		for key, value := range m.values() {
			t, ok := s.orphan(value)
			if !ok || t.stand > 0 && m.steppedSince(t.first) {
				continue // when a clock steps back, a key that MinHold keeps lives longer
			}
			if age := time.Since(t.over); age > t.of.process.lanes[m.index].roundTrip()+goneMost {
				s.judge(m, key, &t, age, m.history(value))
			}
		}
	}
}

// judge tells which rule an orphan breaks. If the connection of the release is
// still in use, or the client was closed meanwhile, the release must have been
// executed by now (R7, R28). If there is another connection, the client owes
// the release, and the master counts only after the debt is paid, so a key
// without a debt was forgotten (R8).
func (s *tokens) judge(m *master, key string, t *token, age time.Duration, history string) {
	p, l := t.of.process, t.of.process.lanes[m.index]
	calmSince := func(since time.Time) bool { return m.calm.isSince(since) && l.calm.isSince(since) }
	told := t.over.Add(-t.stand - l.roundTrip())
	if s.world.draw.has(killForbidden) {
		told = told.Add(-tokenMemory) // a SET may arrive late
	}
	now, closed := p.status(m), p.isClosed()
	then := 0
	if t.connects != nil {
		then = t.connects[m.index]
	}
	switch {
	case calmSince(told) && then > 0 && (closed || now.State == "up" && now.Connects == then):
		s.world.violate("R7", "%s: a key of %s is on node %d, %v after it was over: the node was told %s",
			key, p.name, m.index, age, history)
	case s.world.draw.has(killForbidden) || closed || t.stand > 0: // then some debts are paid, and some are late
	case age > s.world.draw.shortest && m.steppedSince(t.first): // a debt ends when its key must have expired, by a clock without steps
	case calmSince(time.Now().Add(-l.roundTrip()-goneMost)) && now.State == "up" && now.Debts == 0:
		s.world.violate("R8", "%s: a key of %s is on node %d, %v after it was over, and no debt: the node was told %s",
			key, p.name, m.index, age, history)
	}
}

// history lists what a master was told about a token, and when, without the
// token itself (R27).
func (m *master) history(value string) string {
	var all []string
	for _, e := range m.node.Log() {
		if slices.Contains(e.Args, value) {
			ago := time.Since(e.At).Round(10 * time.Microsecond)
			all = append(all, fmt.Sprintf("%s %v ago over %d: %.20q", e.Args[0], ago, e.Conn, e.Reply))
		}
	}
	return strings.Join(all, "; ")
}

// orphan returns a token that is over, and that should have been released. A
// process that crashed leaves its keys to their TTL.
func (s *tokens) orphan(value string) (token, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.seen[value]
	if t == nil || t.of == nil || t.state != isOver || t.of.process.isDead() {
		return token{}, false
	}
	return *t, true
}

// connects returns the numbers of the connections to all masters of the world,
// 0 where no connection counts.
func (p *process) connects() []int {
	all := make([]int, len(p.lanes))
	for i, n := range p.client.Nodes() {
		if n.State == "up" {
			all[p.masters[i].index] = n.Connects
		}
	}
	return all
}

// status returns what the process's client says of a master, which it need not
// name.
func (p *process) status(m *master) redlock.NodeStatus {
	if i := slices.Index(p.masters, m); i >= 0 {
		return p.client.Nodes()[i]
	}
	return redlock.NodeStatus{}
}

// loaded records that a client has loaded the scripts.
func (m *master) loaded() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flushed {
		m.flushed = false
		m.calm.end(brief)
	}
}

// stays reports whether a key may stay until its TTL ends, or MinHold's.
func (s *tokens) stays(value string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.seen[value]
	return t != nil && t.of != nil && (t.state == dropped || t.of.process.isDead() || time.Now().Before(t.over))
}

// ofDead reports whether a process that crashed has asked with this token.
func (s *tokens) ofDead(value string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.seen[value]
	return t != nil && t.of != nil && t.of.process.isDead()
}

// workerOf finds a worker by its process's name and its index there.
func (w *world) workerOf(name string, index int) *worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.lives) - 1; i >= 0; i-- {
		if p := w.lives[i]; p.name == name && index < len(p.workers) {
			return p.workers[index]
		}
	}
	return nil
}
