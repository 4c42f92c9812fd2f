package multiplex

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// fence makes sure that nothing on the previous connection is executed any
// more. It asks the server itself to end that connection, and only the server's
// answer counts. A stopped server that resumes executes the old socket's
// commands even after FIN or RST (R8).
func (n *node) fence() pure.LifeAction {
	c := n.conn
	command, certain := killCommand(&n.previous.server, c.Server())
	if command != nil {
		killed := false
		ctx, cancel := n.patience()
		err := c.Exchange(ctx, command, 1, func(_ int, v resp.Value) error {
			count, ok := v.Int64()
			if !ok && !v.IsError() {
				return fmt.Errorf("%w: type %q to CLIENT KILL", ErrUnexpected, v.Type())
			}
			// With a guessed address, only a hit proves anything.
			killed = ok && (certain || count > 0)
			return nil
		})
		cancel()
		if err != nil {
			return n.lost(c, err)
		}
		certain = killed
	}
	n.fenceDebts(certain)
	return n.step(pure.Fenced)
}

// fenceDebts tells the ledger, debt by debt, that the fence is answered. From
// then on a debt's time runs. It works in batches, and records the result of
// the fence first, since oweLocked reads it in between.
func (n *node) fenceDebts(certain bool) {
	g := n.group
	if !certain {
		g.mu.Lock()
		n.previous.unfenced = pure.Unfenced{End: n.previous.end, Since: g.now()}
		g.mu.Unlock()
	}
	n.eachDebt(func(d *pure.Debt, now time.Duration) { n.ledger.FenceDebt(d, now, certain) })
}

// killCommand returns the command that ends the old connection on the new one's
// server. It is nil with nothing to kill, or no way to name it. Beside a
// command, certain reports whether the reply 0 proves the old connection gone.
// Without one, it reports whether nothing needs to be killed. Ids start again
// at 1 when a server restarts, so an id alone could hit another client;
// together with the address, or on the same run of the server, it cannot.
func killCommand(old, now *conn.Server) (command []byte, certain bool) {
	sameRun := old.RunID != "" && old.RunID == now.RunID
	switch {
	case pure.Replaced(old.RunID, now.RunID):
		// That process is dead, or another server has its address now (see the
		// package comment).
		return nil, true
	case old.ID == 0 || old.ClientAddr == "" && !sameRun:
		return nil, false
	}
	id := strconv.FormatInt(old.ID, 10)
	if old.ClientAddr == "" || !old.AddrKnown && sameRun {
		return resp.AppendCommand(nil, "CLIENT", "KILL", "ID", id, "SKIPME", "yes"), true
	}
	return resp.AppendCommand(nil, "CLIENT", "KILL", "ID", id, "ADDR", old.ClientAddr, "SKIPME", "yes"), old.AddrKnown
}

// openingTimeout is the default of DialTimeout in package conn.
const openingTimeout = 5 * time.Second

// patience bounds each exchange before the join. A server that stops after its
// handshake does not hold the node's goroutine (R26).
func (n *node) patience() (context.Context, context.CancelFunc) {
	limit := cmp.Or(n.dialer.config.Endpoint.DialTimeout, openingTimeout)
	// The error must not match a caller's own deadline.
	return context.WithTimeoutCause(n.group.life.stopped, limit, ErrSilent)
}
