package multiplex

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"errors"

	"github.com/redmux/redmux/conn"
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
