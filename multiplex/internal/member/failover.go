package member

import (
	"errors"
	"fmt"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// A node that fails over is one vote, behind which servers come and go
// (docs/internals/safety.md, "The argument"). Which server executed a
// command shows in INFO replication behind it: a server that became a replica
// has another history from then on. So each batch of claims and extensions is
// followed by that question, and counts only by its answer.

// failing is what is known of a node that fails over. It is zero for a lone
// master.
type failing struct {
	failover pure.Failover
	auto     bool // the bound is read from the server
	// needed and maxLag are the settings min-replicas of the present server.
	// They are zero if no bound was read.
	needed int
	maxLag time.Duration
	// alone is failover.Alone, or a longer one of before: it is about the
	// former primary.
	alone time.Duration
	// contact is when the last answered question was sent. Before the next
	// one, the server may have been stopped. It has both clocks: while a host
	// is suspended, with this client and the server on it, the monotonic one
	// stands still.
	contact time.Time
}

// expect takes in how a node was configured.
func (m *Members) expect(i int, f conn.Failover) {
	if !f.Expected {
		return
	}
	m.FailOver = m.FailOver.Add(i)
	n := &m.nodes[i]
	n.auto = f.Bound == 0
	m.bind(i, pure.Failover{Expected: true, Bound: max(0, f.Bound.Truncate(time.Millisecond))})
}

// bind takes in the bound of the present server. The former one may have had a
// longer one.
func (m *Members) bind(i int, f pure.Failover) {
	n := &m.nodes[i]
	n.failover = f
	n.alone = max(n.alone, f.Alone(m.config.DriftFactor))
}

// greet begins the watch anew after a silence, whatever connections lay in
// between. The answer to the handshake may be to its first command.
func (n *node) greet(dialed, now time.Duration) {
	clock := time.Now()
	if n.failover.Expected && pure.Elapsed(n.contact, clock) > n.failover.Grace() {
		n.trust = n.trust.Silent(now)
	}
	n.contact = clock.Add(dialed - now)
}

// ownOf returns how long this client must watch a node's server itself. After
// that it is no former primary that was stopped, if a bound is known: then the
// seal may say how long ago it was promoted. A slot of a cluster comes back to
// a server with the server's old seal, so no seal is believed there.
func (m *Members) ownOf(i int) time.Duration {
	switch n := &m.nodes[i]; {
	case !n.failover.Expected:
		return 0
	case n.failover.Bound == 0, n.server.Mode == "cluster":
		return m.needOf(i)
	default:
		return n.alone
	}
}

var configReplicas = resp.AppendCommand(nil, "CONFIG", "GET", "min-replicas-*")

// inspectReplicas asks a server, before it joins, what bounds the time for
// which it may accept writes as a former primary.
func (m *Members) inspectReplicas(i int, q *Questions) {
	if !m.nodes[i].auto {
		return
	}
	m.askReplicas(i, q, func(needed int, maxLag, bound time.Duration) {
		n := &m.nodes[i]
		n.needed, n.maxLag = 0, 0
		if bound > 0 {
			n.needed, n.maxLag = needed, maxLag
		}
		m.bind(i, pure.Failover{Expected: true, Bound: bound})
		m.require(i, m.host.Now())
	})
}

// lookAtReplicas asks an up server again how many replicas it needs, since that
// changes with their number. Another lag is a matter of the next handshake.
func (m *Members) lookAtReplicas(i int, q *Questions) {
	if m.nodes[i].needed == 0 {
		return
	}
	m.askReplicas(i, q, func(needed int, maxLag, bound time.Duration) {
		if n := &m.nodes[i]; n.needed > 0 && bound > 0 && maxLag == n.maxLag {
			n.needed = needed
		}
	})
}

// askReplicas asks for the settings min-replicas and the bound that they make.
// There is none for a server that does not tell its history. take is called
// with the mutex.
func (m *Members) askReplicas(i int, q *Questions, take func(needed int, maxLag, bound time.Duration)) {
	needed, maxLag := 0, time.Duration(0)
	q.Add(configReplicas, func(v resp.Value) error {
		needed, maxLag = conn.MinReplicas(v)
		return nil
	})
	q.Add(infoReplication, func(v resp.Value) error {
		m.host.Lock()
		defer m.host.Unlock()
		server, bound := &m.nodes[i].server, time.Duration(0)
		if standing, _ := server.Standing(v, maxLag); server.History != "" {
			bound = pure.BoundByReplicas(standing.Replicas, needed, maxLag)
		}
		take(needed, maxLag, bound)
		return nil
	})
}

// sightFailover compares what a seal says of the node's failover with what this
// client knows. A client with a smaller bound would let in others too early for
// this one. A deployment that was opened without a bound has none, though a
// later primary with fewer replicas would have one: its clients do not wait.
func (m *Members) sightFailover(i int, s pure.Sighting, now time.Duration) error {
	n, theirs := &m.nodes[i], s.Seal.Failover
	if theirs == n.failover || !m.concerns(s) {
		return nil
	}
	if n.auto && theirs.Expected && theirs.Bound == 0 {
		n.needed, n.maxLag = 0, 0
		m.bind(i, theirs)
		m.require(i, now)
		return nil
	}
	if !m.config.OtherMaxTTL || !theirs.Expected || !n.failover.Expected {
		return m.host.Explain(&Cause{Kind: OtherFailover, TheirFailover: theirs, OurFailover: n.failover})
	}
	theirs.Bound = max(theirs.Bound, n.failover.Bound)
	m.bind(i, theirs)
	m.require(i, now)
	return nil
}

// Failover returns what is known of a node's failover.
func (m *Members) Failover(i int) pure.Failover { return m.nodes[i].failover }

// Confirm takes the answer to INFO replication behind a batch, sent at the
// given time. It returns why the batch's grants do not count, or nil. An error
// ends the connection, and with it all that is in flight (R16). It takes the
// mutex itself.
func (m *Members) Confirm(i int, v resp.Value, sent time.Time) (*Cause, error) {
	why, standing, err := m.confirm(i, v, sent)
	if why != nil || err != nil || standing.Master && standing.Same {
		return why, err
	}
	if err := m.host.Hear(i, v); err != nil {
		return nil, err
	}
	return nil, ErrNoPrimary
}

func (m *Members) confirm(i int, v resp.Value, sent time.Time) (*Cause, conn.Standing, error) {
	m.host.Lock()
	defer m.host.Unlock()
	n := &m.nodes[i]
	granted := conn.Standing{Master: true, Same: true}
	switch {
	case n.failover.Bound > 0 && (v.IsError() || n.server.History == ""):
		return unconfirmed("INFO does not tell its replication history: allow INFO, or declare the bound of its failover unknown"), granted, nil
	case v.IsError():
		return nil, granted, nil // what may not be asked is unknown (R22)
	}
	standing, ok := n.server.Standing(v, n.maxLag)
	switch silent := pure.Elapsed(n.contact, time.Now()); {
	case !ok:
		return nil, standing, unexpected(v, "INFO", nil)
	case silent > n.failover.Grace():
		return nil, standing, fmt.Errorf("%w: %v", ErrSilence, silent.Truncate(time.Millisecond))
	}
	n.contact = sent
	switch {
	case !standing.Master || !standing.Same:
	case standing.Replicas > n.needed && n.needed > 0:
		return unconfirmed(fmt.Sprintf("%d replicas are connected, and min-replicas-to-write is %d: set it to their number", standing.Replicas, n.needed)), standing, nil
	case standing.Fresh < n.needed:
		return unconfirmed(fmt.Sprintf("%d of the %d replicas keep up, of which the server needs all", standing.Fresh, n.needed)), standing, nil
	}
	return nil, standing, nil
}

// Behind returns what a node that fails over is asked behind a batch: INFO
// replication, and in a cluster its seal before that. A master there may lose
// its slot, and all keys with it, and get it back before any connection hears
// MOVED. If that was done by hand, nothing that names the server has changed,
// not even an epoch. But its seal is gone with the keys.
func (m *Members) Behind(i int) (questions []byte, seal bool) {
	if m.nodes[i].server.Mode != "cluster" || !m.config.Sealed() {
		return infoReplication, false
	}
	return m.sealFirst, true
}

// Keeps takes the seal behind a batch. It returns why the batch's grants do
// not count, or nil. An error ends the connection (R16). It takes the mutex
// itself.
func (m *Members) Keeps(i int, v resp.Value) (*Cause, error) {
	m.host.Lock()
	defer m.host.Unlock()
	n := &m.nodes[i]
	if isText(v) && string(v.Bytes()) == n.seal {
		return nil, nil
	}
	l := &look{node: i}
	switch err := l.readSeal(v); {
	case err != nil:
		return nil, err
	case l.sighting.What == pure.Unreadable: // no sign of a loss
		return unconfirmed("its seal cannot be read: " + conn.ClassOf(v).String()), nil
	}
	if n.trust.Confirms(m.deployment.Proof(l.sighting)) {
		n.seal = l.seal
		return nil, nil
	}
	m.lookAgain(i)
	return unconfirmed("its seal is gone, or is another: the slot may have come back without its keys"), nil
}

func unconfirmed(found string) *Cause { return &Cause{Kind: Unconfirmed, Found: found} }

// The errors of Confirm that end a connection.
var (
	ErrSilence   = errors.New("multiplex: the server was silent for too long, so another may have taken its place")
	ErrNoPrimary = errors.New("multiplex: the server is no primary, or tells no replication history")
)

// Distrusted returns the nodes on which an extension of a lock does not count.
// Of lone masters these are the doubted ones of its receipt, if they are in
// quarantine. Of nodes that fail over, these are all but those that voted for
// the lock, if the vote, up to ends, lasts until no former primary can grant.
func (m *Members) Distrusted(doubted, voted Set, ends time.Duration) Set {
	doubted |= m.FailOver
	for i := range m.nodes {
		if !(voted & m.FailOver).Has(i) {
			continue
		}
		met, ok := m.nodes[i].trust.MetAt()
		if ok && pure.Renewable(ends, met, m.nodes[i].alone) {
			doubted = doubted.Without(pure.SetOf(i))
		}
	}
	return doubted
}

// MetSince returns the nodes that fail over whose server was met after a time.
func (m *Members) MetSince(at time.Duration) (since Set) {
	for i := range m.nodes {
		if met, _ := m.nodes[i].trust.MetAt(); m.FailOver.Has(i) && met > at {
			since = since.Add(i)
		}
	}
	return since
}
