package multiplex

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// Twins: two addresses that lead to one server are one vote (R22). Servers are
// told apart by their run ids. But a server may claim the run id of another. It
// must not keep that other one out: one liar costs one vote. So a node with the
// run id of an up one, its twin, is tested after its handshake, and so is the
// twin, with a new script:
//
//	the twin loads it     a failure is the twin's: it is given up
//	the node is asked     what it returns: one server, and the node is refused
//	for it by its digest  NOSCRIPT: they are two; anything else: it is refused
//	the twin is asked     what it returns: it had the script all the time
//
// Scripts belong to a server and not to one of its databases, so this also
// works if the addresses differ in the database. It needs no permission that a
// lock does not need. A liar cannot tell from the digest what the script
// returns. It could forward the command to the other server, but then it can
// log in there, and can do worse.

// errDisproved ends the connection of a twin that cannot prove its run id.
var errDisproved = errors.New("multiplex: node has the run id of another, and fails to prove that it is that server")

func newProof(twin *conn.Conn) *proof {
	p := &proof{twin: twin, secret: rand.Text()}
	sum := sha1.Sum([]byte(p.script()))
	p.digest = hex.EncodeToString(sum[:])
	return p
}

func (p *proof) script() string { return "return '" + p.secret + "'" }

func (p *proof) load() []byte { return resp.AppendCommand(nil, "SCRIPT", "LOAD", p.script()) }

func (p *proof) call() []byte { return resp.AppendCommand(nil, "EVALSHA", p.digest, "0") }

// twinOfLocked returns a node with a vote and the run id of server, to which a
// connection of this node leads. It must not have been told apart from it. It
// returns nil if there is none.
func (n *dialer) twinOfLocked(server *conn.Server) *node {
	g := n.group
	if server.RunID == "" || g.config.Allow.SameServer {
		return nil
	}
	for i, twin := range g.nodes {
		p := n.proofs[i]
		switch {
		case twin == n.node, !g.live.Has(i), twin.server.RunID != server.RunID:
		case !p.of(twin) || !p.apart:
			return twin
		}
	}
	return nil
}

// of reports whether a proof is about the twin's present connection.
func (p *proof) of(twin *node) bool { return p != nil && p.twin == twin.conn }

// tellApart proves that a connection leads to a server other than those of the
// nodes with a vote. An error is a reason to refuse the node.
func (n *dialer) tellApart(c *conn.Conn) error {
	g := n.group
	for _, p := range n.proofs {
		if p != nil {
			p.apart = false
		}
	}
	for range g.size { // each node once, unless it reconnects meanwhile
		g.mu.Lock()
		twin := n.twinOfLocked(c.Server())
		if twin == nil {
			g.mu.Unlock()
			return nil
		}
		p := n.proofs[twin.index]
		if !p.of(twin) {
			p = newProof(twin.conn)
			n.proofs[twin.index] = p
		}
		g.mu.Unlock()
		if err := n.prove(c, twin, p); err != nil {
			return err
		}
	}
	return errDisproved
}

// prove tells the node apart from one twin, or gives the twin up. An error is a
// reason to refuse the node.
func (n *dialer) prove(c *conn.Conn, twin *node, p *proof) error {
	ctx, cancel := n.patience()
	defer cancel()
	if !twin.says(ctx, p.twin, p.load(), p.digest) {
		twin.disprove(p)
		return nil
	}
	differs := false
	err := c.Exchange(ctx, p.call(), 1, func(_ int, v resp.Value) error {
		differs = conn.ClassOf(v) == conn.ClassNoScript
		return nil
	})
	switch {
	case err != nil:
		return err
	case !differs:
		return sameServer(twin.addr)
	case !twin.says(ctx, p.twin, p.call(), p.secret):
		twin.disprove(p)
	default:
		p.apart = true
	}
	return nil
}

// says sends a command in the node's lane, over the given connection, and
// reports whether the reply is word.
func (n *node) says(ctx context.Context, c *conn.Conn, command []byte, word string) bool {
	said := make(chan bool, 2) // room for every send
	q := &inquiry{abandoned: func(*fault) { said <- false }}
	q.answer = func(_ int, v resp.Value) error {
		said <- !v.IsError() && !v.IsNull() && string(v.Bytes()) == word
		return nil
	}
	n.group.mu.Lock()
	asked := n.conn == c && n.group.live.Has(n.index) && n.inquireLocked(q, command)
	n.group.mu.Unlock()
	if !asked {
		return false
	}
	select {
	case yes := <-said:
		return yes
	case <-ctx.Done():
		return false
	}
}

// disprove gives up a twin that failed. The node that shakes hands takes its
// place at once. If that node were refused too, and both dialed again after
// equal pauses, a liar that is always first could keep it out.
func (n *node) disprove(p *proof) {
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	if n.conn == p.twin {
		n.shedLocked(errDisproved)
	}
}

// One name, several servers (R22): behind a name with several addresses, or
// behind a proxy, each client may reach another server. Such a node is several
// votes that forget each other. That shows in two ways:
//
//   - Once, beside its first connection, the node is dialed again. If another
//     process answers there, and then the connection's does, both live at one
//     time: a warning.
//   - A run id comes back that another one had replaced. A process that ended
//     does not return: the node is refused from then on.
//
// Behind a node that fails over, servers may come and go. There, two primaries
// of different groups are the warning, and nothing is refused.

const (
	// mostAddresses bounds how many addresses of a name are dialed.
	mostAddresses = 4
	// mostFormer bounds how many former run ids of a node are kept.
	mostFormer = 8
)

// askAlive is what the connection must answer after another process has.
var askAlive = resp.AppendCommand(nil, "PING")

// lookBehindOnce starts the look beside the first connection, unless there is
// nothing to compare. Joining does not wait for it.
func (n *dialer) lookBehindOnce() {
	switch {
	case !n.group.config.LookBehind, n.looked, n.server.RunID == "", n.config.Network == "unix":
		return
	}
	n.looked = true
	c, again := n.conn, n.config
	again.Prelude, again.Admit = nil, nil
	if n.renewal.ask != nil {
		again.Username, again.Password, again.Credentials = n.used.Username, n.used.Password, nil
	}
	n.group.life.wg.Go(func() { n.lookBehind(c, again) })
}

// lookBehind dials the node once more, at each address of its name, and warns
// if another server answers. It ends with the group, and otherwise when one
// attempt to connect would.
func (n *dialer) lookBehind(c *conn.Conn, config conn.Config) {
	ctx, cancel := n.patience()
	defer cancel()
	ours := c.Server().RunID
	for _, e := range endpointsBehind(ctx, &config) {
		config.Endpoint = e
		other, err := conn.Dial(ctx, config)
		if err != nil {
			continue // it is no vote for another client either
		}
		theirs := other.Server().RunID
		_ = other.Close()
		if theirs == "" || theirs == ours || n.failsOver && !rivals(c.Server(), other.Server()) {
			continue
		}
		// Otherwise the server may have restarted meanwhile.
		_ = n.group.waitUntil(ctx, func() bool { return n.conn != c || n.group.live.Has(n.index) })
		if n.says(ctx, c, askAlive, "PONG") {
			n.warnOfOther(ours, theirs, cmp.Or(other.Server().Addr, e.Addr))
		}
		return
	}
}

// rivals reports whether two servers behind a node that fails over are
// primaries of two groups. One that replicates from the other may take its
// place.
func rivals(a, b *conn.Server) bool {
	return a.Role == "master" && b.Role == "master" && !pure.Related(a.History, b.History)
}

// endpointsBehind returns what to dial: each address of the node's name, or if
// it has only one, or the application dials by itself, the same once more.
func endpointsBehind(ctx context.Context, config *conn.Config) []conn.Endpoint {
	host, port, err := net.SplitHostPort(config.Addr)
	var addrs []string
	if err == nil && config.NetDial == nil {
		addrs, _ = net.DefaultResolver.LookupHost(ctx, host)
	}
	if len(addrs) < 2 {
		return []conn.Endpoint{config.Endpoint}
	}
	var all []conn.Endpoint
	for _, addr := range addrs[:min(len(addrs), mostAddresses)] {
		e := config.Endpoint
		e.Addr = net.JoinHostPort(addr, port)
		if e.TLS != nil && e.TLS.ServerName == "" {
			e.TLS = e.TLS.Clone()
			e.TLS.ServerName = host
		}
		all = append(all, e)
	}
	return all
}

// warnOfOther records that the node's name leads to two servers, and reports
// it.
func (n *dialer) warnOfOther(ours, theirs, at string) {
	g := n.group
	g.mu.Lock()
	defer g.mu.Unlock()
	n.reporter.remarks.other = fmt.Sprintf("leads to several servers: this client reached the one with run id %s, and another connection to %s reached %s; "+
		"two clients can hold one lock (let the name or proxy lead to one server, and name each server by its own)", ours, at, theirs)
	n.reporter.tellWarningsLocked()
}

// returned reports whether a server after its handshake has a run id from
// before another one of this node. From then on it is true of every server.
func (d *dialer) returned(last, now string) bool {
	switch {
	case now == "", now == last, d.divided:
		return d.divided
	}
	d.divided = slices.Contains(d.former, now)
	if last != "" {
		d.former = append(d.former, last)
		d.former = d.former[max(0, len(d.former)-mostFormer):]
	}
	return d.divided
}

// kinship returns why a server must not have a vote beside those that other
// nodes have, or had here before.
func (d *dialer) kinship(server *conn.Server) error {
	if !d.failsOver && d.returned(d.server.RunID, server.RunID) {
		return severalServers()
	}
	d.group.mu.Lock()
	defer d.group.mu.Unlock()
	return d.kinLocked(server)
}

// kinLocked returns the error for a server that replicates with that of another
// node with a vote. Lone masters are not judged: one may have begun with a copy
// of another's data.
//
// Here a word is believed that no script can test. Two kin with a vote are
// primaries: a promoted one and its former primary. Nothing that is written on
// one of them now reaches the other, and scripts are not replicated. What both
// have in common lies before the promotion, and need not have been replicated.
// So a proof could only convict kin and never acquit, and without a conviction
// they would be two votes of one set. Which of the two lies does not show
// either: a liar may claim to be the former primary or the promoted one. It has
// to know the other's replication id, which INFO alone tells, and it gains what
// SECURITY.md says (R33).
func (d *dialer) kinLocked(server *conn.Server) error {
	for i, n := range d.group.nodes {
		if n != d.node && d.group.live.Has(i) && (n.failsOver || d.failsOver) && pure.Related(n.server.History, server.History) {
			return &PreflightError{"same server", "it replicates with the server at " + n.addr + ", or did before one of them was promoted",
				"name each group of a primary and its replicas once: N votes need N groups", ErrSameNode}
		}
	}
	return nil
}

// severalServers returns the error for a node with a former run id again.
func severalServers() error {
	return &PreflightError{"one server", "the address leads to several servers: a run id came back that another had replaced",
		"let the name or proxy lead to one server, and name each server by its own; then start this client anew", ErrNotMaster}
}
