package multiplex

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// A look reads a node's seal and opening, and then its role and replication
// history: if the server is demoted meanwhile, that shows there. With fencing
// numbers it reads the node's record first: if the keys are flushed meanwhile,
// that shows in the seal.
type look struct {
	node     *node
	sighting pure.Sighting
	seal     string        // its text
	record   pure.Record   // of fencing numbers
	recorded pure.Seen     // what stands there
	asked    time.Duration // when it was requested, on the group's clock
	flushes  uint64        // node.flushes when the first reply came
}

// The commands of a look, in their order.
const (
	turnRecord = iota
	turnSeal
	turnOpening
	turnHistory
)

var infoReplication = resp.AppendCommand(nil, "INFO", "replication")

// look calls ask with each command of a look, and with what takes the reply.
func (g *Group) look(l *look, ask func(command []byte, judge func(v resp.Value) error)) {
	for turn, command := range [...][]byte{g.config.Floors.Read, g.config.Seal.Read[0], g.config.Seal.Read[1], infoReplication} {
		if turn != turnRecord || g.config.numbered() {
			ask(command, func(v resp.Value) error { return l.read(turn, v) })
		}
	}
}

// read handles the reply to one of the commands. It returns an error if the
// reply cannot answer the command (R16).
func (l *look) read(turn int, v resp.Value) error {
	if turn == turnHistory {
		return l.node.hear(v)
	}
	found, text, err := valueOf(v)
	if err != nil {
		return err
	}
	switch turn {
	case turnRecord:
		if l.recorded = found; found == pure.SealSeen {
			if l.record, err = pure.ParseRecord(text); err != nil {
				l.recorded = pure.SealStrange
			}
		}
		return nil
	case turnSeal:
		l.sighting.What, l.seal = found, text
		if found == pure.SealSeen {
			if l.sighting.Seal, err = pure.ParseSeal(text); err != nil {
				l.sighting.What, l.sighting.Later = pure.SealStrange, pure.LaterForm(text)
			}
		}
		return nil
	}
	switch found {
	case pure.SealSeen:
		if l.sighting.Opening, err = pure.ParseOpening(text); err != nil {
			l.sighting.What, l.sighting.Later = pure.SealStrange, l.sighting.Later || pure.LaterForm(text)
		}
	case pure.Unreadable, pure.SealStrange:
		l.sighting.What = found
	}
	return nil
}

// hear takes what the server says of its role and history. What the user may
// not ask stays unknown (R22).
func (n *node) hear(v resp.Value) error {
	if v.IsError() {
		return nil
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	now, ok := n.server.ReadInfo(v)
	if !ok {
		return fmt.Errorf("%w: type %q to INFO", ErrUnexpected, v.Type())
	}
	return n.recheck(&now)
}

// valueOf parses the reply to a command of Seal.Read.
func valueOf(v resp.Value) (found pure.Seen, text string, err error) {
	switch {
	case conn.ClassOf(v) == conn.ClassWrongType:
		return pure.SealStrange, "", nil
	case v.IsError():
		return pure.Unreadable, "", nil
	case v.IsNull() && v.Type() != resp.Array:
		return pure.SealAbsent, "", nil
	case v.Type() != resp.BulkString:
		return 0, "", fmt.Errorf("%w: type %q to a look at the seal", ErrUnexpected, v.Type())
	}
	return pure.SealSeen, string(v.Bytes()[:min(len(v.Bytes()), maxSeal)]), nil
}

// maxSeal is longer than any seal. Sixteen members take 272 bytes of a seal.
const maxSeal = 1024

// inspect examines the node once before it joins, over its own connection. It
// reads the seal and the node's clock, and if the node was declared durable,
// the server's settings. An error ends the connection.
func (n *node) inspect(c *conn.Conn) error {
	g := n.group
	l := &look{node: n, asked: g.now()}
	var commands []byte
	var judges []func(v resp.Value) error
	ask := func(command []byte, judge func(v resp.Value) error) {
		commands = append(commands, command...)
		judges = append(judges, judge)
	}
	if g.config.sealed() {
		n.inspectFlushes(ask)
	}
	if g.config.Seal.stored() {
		g.look(l, ask)
	}
	if g.config.sealed() {
		ask(serverTime, func(v resp.Value) error { return n.date(v, l.asked) })
	}
	if g.config.MaxTTL > 0 && g.config.Durable.Has(n.index) {
		ask(infoPersistence, n.inspectDurable)
	}
	if len(judges) == 0 {
		return nil
	}
	ctx, cancel := n.patience()
	defer cancel()
	return c.Exchange(ctx, commands, len(judges), func(i int, v resp.Value) error {
		if err := judges[i](v); err != nil || i != len(judges)-1 || !g.config.Seal.stored() {
			return err
		}
		return n.inspectSeal(l)
	})
}

var (
	serverTime      = resp.AppendCommand(nil, "TIME")
	infoPersistence = resp.AppendCommand(nil, "INFO", "persistence")
)

func (n *node) inspectSeal(l *look) error {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.config.sealed() {
		if who := l.sighting.Identity(); who != (pure.Identity{}) {
			n.trust.warnings = append(n.trust.warnings, WarnForgetful)
		}
		return nil
	}
	now := g.now()
	n.trust.looks = pure.FirstLooks(now)
	return n.sightLocked(l, now)
}

// inspectDurable warns if the server of a node that was declared durable says
// otherwise. If the server refuses to answer, its durability stays unknown
// (R22).
func (n *node) inspectDurable(v resp.Value) error {
	if v.IsError() || !strings.Contains(string(v.Bytes()), "aof_enabled:0") {
		return nil
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.trust.warnings = append(n.trust.warnings, warnNotDurable)
	return nil
}

// date records what the process says of its start, from INFO in the handshake
// and the reply to TIME (R29); see pure.Believed. asked is when TIME was
// requested.
func (n *node) date(v resp.Value, asked time.Duration) error {
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.trust.Account = pure.Account{}
	if v.IsError() {
		return nil
	}
	clock, err := ReadTime(v)
	if err != nil {
		return err
	}
	n.readClockLocked(clock, asked)
	s := &n.server
	n.trust.Account = pure.Account{
		Believed: pure.Believed(s.RunID, s.Unpromoted, time.Since(clock)),
		Uptime:   s.Uptime, Dialed: n.dialed, Asked: n.trust.met,
	}
	return nil
}

// ReadTime parses the reply to TIME: seconds and microseconds. It returns
// ErrUnexpected for anything else, and for a time before 1970 or after 2255.
func ReadTime(v resp.Value) (time.Time, error) {
	if v.Type() != resp.Array || v.IsNull() || v.Len() != 2 {
		return time.Time{}, fmt.Errorf("%w: type %q to TIME", ErrUnexpected, v.Type())
	}
	// A time becomes a fencing number, so it is below the last one.
	most := [2]uint64{pure.LastNumber/1_000_000 - 1, 999_999}
	var parts [2]uint64
	i := 0
	for e := range v.Elements() {
		n, err := strconv.ParseUint(string(e.Bytes()), 10, 64)
		if err != nil || n > most[i] {
			return time.Time{}, fmt.Errorf("%w: no such time", ErrUnexpected)
		}
		parts[i] = n
		i++
	}
	return time.Unix(int64(parts[0]), int64(parts[1])*int64(time.Microsecond)), nil
}

// sightLocked applies what a look found. An error ends the connection: the
// deployment has another MaxTTL.
func (n *node) sightLocked(l *look, now time.Duration) error {
	g := n.group
	d := &g.quarantine.deployment
	s := l.sighting
	n.trust.Trust = n.trust.Sight(d.Proof(s), now)
	d.Born(n.index, n.trust.Born())
	d.Sight(n.index, s, l.asked, now)
	_, _, rivals := d.Rivals()
	replaced := slices.Contains(g.config.Replace, s.Seal.Identity.ID)
	if s.What == pure.SealSeen && s.Seal.MaxTTL != g.quarantine.maxTTL && !replaced && !rivals {
		if !g.config.Allow.OtherMaxTTL {
			return otherMaxTTL(s.Seal.MaxTTL, g.quarantine.maxTTL)
		}
		g.raiseLocked(s.Seal.MaxTTL, now)
	}
	n.judgeTrustLocked(now)
	g.settleLocked(now)
	if g.config.numbered() {
		n.sightFloorLocked(l, now)
	}
	return nil
}

// tendLocked reads the seal of a node that is up if that is due, and returns
// when to run again.
func (n *node) tendLocked(now time.Duration) time.Duration {
	g := n.group
	if !g.config.sealed() {
		return now + g.config.ProbeAfter
	}
	if now < n.trust.looks.Next {
		return n.trust.looks.Next
	}
	if !n.trust.looks.Asking {
		n.lookLocked()
	}
	n.trust.looks.Plan(!(g.quarantine.nodes | g.numbering.floorless).Has(n.index), now)
	return n.trust.looks.Next
}

// lookLocked asks for the seal, in the lane. It does not wait for the reply.
func (n *node) lookLocked() {
	g := n.group
	l := &look{node: n, asked: g.now()}
	var commands [][]byte
	var judges []func(v resp.Value) error
	ask := func(command []byte, judge func(v resp.Value) error) {
		commands, judges = append(commands, command), append(judges, judge)
	}
	if g.config.numbered() {
		ask(serverTime, func(v resp.Value) error { return n.tellClock(v, l.asked) })
	}
	g.look(l, ask)
	q := &inquiry{abandoned: func(*fault) { n.trust.looks.Asking = false }}
	q.answer = func(i int, v resp.Value) error {
		if i == 0 {
			l.flushes = n.flushes
		}
		if err := judges[i](v); err != nil || i != len(judges)-1 {
			return err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		n.trust.looks.Asking = false
		now := g.now()
		if err := n.sightLocked(l, now); err != nil {
			return err
		}
		n.explainLocked(l.flushes)
		n.renewSealLocked(l.sighting, now)
		return nil
	}
	n.trust.looks.Asking = n.inquireLocked(q, commands...)
}

// renewSealLocked writes how long this client has watched the process, if the
// seal that was found says less.
func (n *node) renewSealLocked(s pure.Sighting, now time.Duration) {
	g := n.group
	who := s.Identity()
	if !g.quarantine.deployment.Vouches(who) || n.trust.looks.Writing || !n.trust.Renews(s, g.quarantine.maxTTL, now) {
		return
	}
	n.trust.looks.Writing = true
	n.orderLocked(pure.Order{Verb: pure.Confirm, Identity: who}, now)
}

// orderLocked sends an order for the node's deployment, in the lane: the
// connection leads to the very process that a seal is about. If the node cannot
// carry the order out at the moment (-OOM, -MISCONF …), it gets the order again
// after the next look.
func (n *node) orderLocked(o pure.Order, now time.Duration) {
	g := n.group
	d := &g.quarantine.deployment
	args, seal := n.argumentsLocked(o, now)
	drop := func(*fault) { n.trust.looks.Writing = false; d.Drop(n.index, o) }
	q := &inquiry{abandoned: drop}
	q.answer = func(_ int, v resp.Value) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		now := g.now()
		count, ok := v.Int64()
		switch {
		case ok && count == 1:
			if seal != nil {
				n.trust.Trust = n.trust.Seal(seal.Watched, now)
				n.judgeTrustLocked(now)
			}
			d.Answer(n.index, o, true)
		case ok && count == 0:
			d.Answer(n.index, o, false)
		case v.Type() == resp.BulkString && !v.IsNull():
			if err := d.Elsewhere(n.index, o, string(v.Bytes())); err != nil {
				return fmt.Errorf("%w to the seal: %w", ErrUnexpected, err)
			}
		case !v.IsError():
			return fmt.Errorf("%w: type %q to the seal", ErrUnexpected, v.Type())
		default:
			if conn.ClassOf(v) == conn.ClassNoScript {
				n.cureSealLocked()
			}
			d.Drop(n.index, o)
		}
		n.trust.looks.Writing = false
		g.settleLocked(now)
		if seal != nil && ok && count == 1 && g.numbering.floorless.Has(n.index) && !n.trust.looks.Asking {
			n.lookLocked() // the seal may be the proof that a floor waits for
		}
		return nil
	}
	if !n.inquireLocked(q, g.config.Seal.Write(args...)) {
		drop(nil)
	}
}

// argumentsLocked returns the arguments of seal.lua for an order, and the seal
// that the order writes, or nil if it writes none.
func (n *node) argumentsLocked(o pure.Order, now time.Duration) ([]string, *pure.Seal) {
	g := n.group
	who := o.Identity.String()
	ids, db := " "+strings.Join(g.config.Replace, " ")+" ", strconv.Itoa(n.config.Endpoint.DB)
	switch o.Verb {
	case pure.Propose:
		return []string{"propose", who, strconv.FormatInt(pure.ProposalTTL.Milliseconds(), 10), ids, db}, nil
	case pure.Lock:
		return []string{"lock", who}, nil
	case pure.Undo:
		return []string{"undo", who}, nil
	}
	seal := n.trust.Writes(o.Identity, g.quarantine.maxTTL, g.quarantine.deployment.Vouches(o.Identity), now)
	if o.Verb == pure.Adopt {
		return []string{"adopt", who, seal.String(), ids, db}, &seal
	}
	return []string{"seal", who, seal.String()}, &seal
}

// cureSealLocked loads the script that writes the seal again, and looks at the
// seal again soon.
func (n *node) cureSealLocked() {
	g := n.group
	if n.life.State != Up {
		return
	}
	n.loadScriptsLocked()
	g.promptLocked()
	n.trust.looks.Hasten(g.now())
	g.wakeWatchAtLocked(n.trust.looks.Next)
}
