package member

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// A look reads a node's seal, and then its role and replication history: a
// demotion meanwhile shows there. With fencing numbers it reads the node's
// record first: a flush meanwhile shows in the seal.
type look struct {
	node     int
	sighting pure.Sighting
	seal     string        // its text
	record   pure.Record   // of fencing numbers
	recorded pure.Seen     // what stands there
	asked    time.Duration // when it was requested, on the host's clock
	flushes  uint64        // those of the node when the first reply came
}

var (
	serverTime      = resp.AppendCommand(nil, "TIME")
	infoReplication = resp.AppendCommand(nil, "INFO", "replication")
)

// add adds the commands of a look.
func (l *look) add(m *Members, q *Questions) {
	if m.config.Numbered() {
		q.Add(m.config.ReadRecord, l.readRecord)
	}
	q.Add(m.config.ReadSeal, l.readSeal)
	q.Add(infoReplication, func(v resp.Value) error { return m.host.Hear(l.node, v) })
}

func (l *look) readRecord(v resp.Value) error {
	found, text, err := valueOf(v)
	l.recorded = found
	if found == pure.SealSeen && err == nil {
		record, strange := pure.ParseRecord(text)
		l.record = record
		if strange != nil {
			l.recorded = pure.SealStrange
		}
	}
	return err
}

func (l *look) readSeal(v resp.Value) error {
	found, text, err := valueOf(v)
	l.sighting.What, l.seal = found, text
	if found == pure.SealSeen && err == nil {
		seal, strange := pure.ParseSeal(text)
		l.sighting.Seal = seal
		if strange != nil {
			l.sighting.What, l.sighting.Later = pure.SealStrange, pure.LaterForm(text)
		}
	}
	return err
}

// Inspect adds what a node is asked once, before it joins: its seal and its
// clock. It needs no mutex. Without seals of this client, but with those of
// others, forgetful is called, with the mutex.
func (m *Members) Inspect(i int, q *Questions, forgetful func()) {
	if !m.config.stored() {
		return
	}
	m.inspectReplicas(i, q)
	l := &look{node: i, asked: m.host.Now()}
	l.add(m, q)
	if m.config.Sealed() {
		q.Add(serverTime, func(v resp.Value) error { return m.date(i, v, l.asked) })
	}
	q.then = func() error {
		m.host.Lock()
		defer m.host.Unlock()
		if m.config.Sealed() {
			now := m.host.Now()
			m.nodes[i].looks = pure.FirstLooks(now)
			return m.sight(l, now)
		}
		if l.sighting.Identity() != (pure.Identity{}) {
			forgetful()
		}
		return nil
	}
}

// date records what the process says of its start, from INFO in the handshake
// and the reply to TIME (R29); see pure.Believed. asked is when TIME was
// requested.
func (m *Members) date(i int, v resp.Value, asked time.Duration) error {
	m.host.Lock()
	defer m.host.Unlock()
	n := &m.nodes[i]
	n.trust.Account = pure.Account{}
	if v.IsError() {
		return nil
	}
	clock, err := ReadTime(v)
	if err != nil {
		return err
	}
	m.readClock(i, clock, asked)
	// A primary may have run for days as a replica.
	n.trust.Account = pure.Account{
		Believed: !m.FailOver.Has(i) && pure.Believed(n.server.RunID, n.server.Unpromoted, time.Since(clock)),
		Uptime:   n.server.Uptime, Dialed: n.dialed, Asked: n.met,
	}
	return nil
}

// ReadTime parses the reply to TIME, as multiplex.ReadTime says.
func ReadTime(v resp.Value) (time.Time, error) {
	if v.Type() != resp.Array || v.IsNull() || v.Len() != 2 {
		return time.Time{}, unexpected(v, "TIME", nil)
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

// sight applies what a look found. An error ends the connection: the deployment
// has another MaxTTL.
func (m *Members) sight(l *look, now time.Duration) error {
	n, d, s := &m.nodes[l.node], &m.deployment, l.sighting
	n.seal = l.seal
	n.trust = n.trust.Finds(s.What, now).Sight(d.Proof(s), now)
	d.Born(l.node, n.trust.Born())
	d.Sight(l.node, s, l.asked, now)
	if m.otherMaxTTL(s) {
		if !m.config.OtherMaxTTL {
			return m.host.Explain(&Cause{Kind: OtherMaxTTL, Theirs: s.Seal.MaxTTL, Ours: m.maxTTL})
		}
		m.raise(s.Seal.MaxTTL, now)
	}
	if err := m.sightFailover(l.node, s, now); err != nil {
		return err
	}
	m.Judge(l.node, now)
	m.settle(now)
	if m.config.Numbered() {
		m.sightFloor(l, now)
	}
	return nil
}

// otherMaxTTL reports whether a seal has another MaxTTL. A replaced one, or one
// of several deployments, may have it.
func (m *Members) otherMaxTTL(s pure.Sighting) bool {
	return s.Seal.MaxTTL != m.maxTTL && m.concerns(s)
}

// concerns reports whether a seal's terms are those of this client's
// deployment. A node of no open deployment has none.
func (m *Members) concerns(s pure.Sighting) bool {
	_, _, rivals := m.deployment.Rivals()
	return !rivals && s.Identity() != (pure.Identity{}) && !slices.Contains(m.config.Replace, s.Seal.Open.ID)
}

// tendLooks makes the due look at an up node. It returns when to run again.
func (m *Members) tendLooks(i int, now time.Duration) time.Duration {
	if !m.config.Sealed() {
		return now + m.config.ProbeAfter
	}
	looks := &m.nodes[i].looks
	if now < looks.Next {
		return looks.Next
	}
	m.lookAgain(i)
	looks.Plan(!(m.Doubted | m.Floorless).Has(i), now)
	if f := m.nodes[i].failover; f.Expected {
		// A slot of a cluster may go and come back. A look in between, at a
		// key, is answered with MOVED.
		looks.Next = min(looks.Next, now+f.Grace())
	}
	return looks.Next
}

// lookAgain looks at a node without a look under way.
func (m *Members) lookAgain(i int) {
	if !m.nodes[i].looks.Asking {
		m.look(i)
	}
}

// look asks for the seal. It does not wait for the reply.
func (m *Members) look(i int) {
	n := &m.nodes[i]
	l := &look{node: i, asked: m.host.Now()}
	q := new(Questions)
	if m.config.Numbered() {
		q.Add(serverTime, func(v resp.Value) error { return m.tellClock(i, v, l.asked) })
	}
	m.lookAtReplicas(i, q)
	l.add(m, q)
	q.then = func() error {
		m.host.Lock()
		defer m.host.Unlock()
		n.looks.Asking = false
		now := m.host.Now()
		if err := m.sight(l, now); err != nil {
			return err
		}
		if l.flushes != n.flushes {
			m.look(i)
		} else {
			m.host.Looked(i)
		}
		m.renew(i, l.sighting, now)
		return nil
	}
	answer := func(turn int, v resp.Value) error {
		if turn == 0 {
			l.flushes = m.flushesOf(i)
		}
		return q.Answer(turn, v)
	}
	n.looks.Asking = m.host.Ask(i, q.Commands, answer, func() { n.looks.Asking = false })
}

// flushesOf needs no mutex.
func (m *Members) flushesOf(i int) uint64 {
	m.host.Lock()
	defer m.host.Unlock()
	return m.nodes[i].flushes
}

// Questions are commands for one node, and what takes the reply to each.
type Questions struct {
	Commands [][]byte
	judges   []func(v resp.Value) error
	then     func() error // after the last reply; nil for nothing
}

// Add adds a command. Without the mutex, judge gets its reply.
func (q *Questions) Add(command []byte, judge func(v resp.Value) error) {
	q.Commands = append(q.Commands, command)
	q.judges = append(q.judges, judge)
}

// Answer takes the reply to a command, without the mutex. An error ends the
// connection (R16).
func (q *Questions) Answer(i int, v resp.Value) error {
	if err := q.judges[i](v); err != nil || i != len(q.judges)-1 || q.then == nil {
		return err
	}
	return q.then()
}

// said is the reply of a script to write a key.
type said uint8

const (
	saidError said = iota
	saidNo         // what is there forbids it
	saidDone
	saidText
)

// write sends a command with such a script. took gets the reply, with the
// mutex. A node without the script gets it again. lost and the result are those
// of Host.Ask.
func (m *Members) write(i int, what string, command []byte, took func(said, resp.Value) error, lost func()) bool {
	return m.host.Ask(i, [][]byte{command}, func(_ int, v resp.Value) error {
		m.host.Lock()
		defer m.host.Unlock()
		count, ok := v.Int64()
		switch {
		case ok && count == 1:
			return took(saidDone, v)
		case ok && count == 0:
			return took(saidNo, v)
		case isText(v):
			return took(saidText, v)
		case !v.IsError():
			return unexpected(v, what, nil)
		case conn.ClassOf(v) == conn.ClassNoScript:
			m.cure(i)
		}
		return took(saidError, v)
	}, lost)
}

func isText(v resp.Value) bool { return v.Type() == resp.BulkString && !v.IsNull() }

// cure loads the script to write the seal again. The next look comes soon.
func (m *Members) cure(i int) {
	if m.host.Cure(i) {
		m.hasten(i)
	}
}

// hasten makes the next look come soon.
func (m *Members) hasten(i int) {
	n := &m.nodes[i]
	n.looks.Hasten(m.host.Now())
	m.host.Wake(n.looks.Next)
}

// unexpected returns the error of a reply unfit for its command (R16).
func unexpected(v resp.Value, what string, why error) error {
	if why != nil {
		return fmt.Errorf("%w to %s: %w", ErrUnexpected, what, why)
	}
	return fmt.Errorf("%w: type %q to %s", ErrUnexpected, v.Type(), what)
}

// valueOf parses the reply to a read of a key.
func valueOf(v resp.Value) (found pure.Seen, text string, err error) {
	switch {
	case conn.ClassOf(v) == conn.ClassWrongType:
		return pure.SealStrange, "", nil
	case v.IsError():
		return pure.Unreadable, "", nil
	case isText(v):
		return pure.SealSeen, string(v.Bytes()[:min(len(v.Bytes()), maxSeal)]), nil
	case v.IsNull() && v.Type() != resp.Array:
		return pure.SealAbsent, "", nil
	}
	return 0, "", unexpected(v, "a look at the seal", nil)
}

// maxSeal is longer than any seal. Four names of each of sixteen members take
// 2,175 bytes, and the members of two sets 542.
const maxSeal = 4096
