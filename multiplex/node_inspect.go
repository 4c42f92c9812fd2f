package multiplex

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/multiplex/internal/member"
	"github.com/redmux/redmux/resp"
)

var infoPersistence = resp.AppendCommand(nil, "INFO", "persistence")

// inspect examines the node once before it joins, over its own connection: its
// seal and clock, and if it was declared durable, the server's settings. An
// error ends the connection.
func (n *node) inspect(c *conn.Conn) error {
	g := n.group
	q := new(member.Questions)
	if g.config.sealed() {
		n.inspectFlushes(q.Add)
	}
	g.members.Inspect(n.index, q, func() { n.reporter.remarks.add(WarnForgetful) })
	if g.config.MaxTTL > 0 && g.config.Durable.Has(n.index) {
		q.Add(infoPersistence, n.inspectDurable)
	}
	if len(q.Commands) == 0 {
		return nil
	}
	ctx, cancel := n.patience()
	defer cancel()
	return c.Exchange(ctx, bytes.Join(q.Commands, nil), len(q.Commands), q.Answer)
}

// inspectDurable warns of a node declared durable, by a server that says
// otherwise. If the server refuses to answer, its durability stays unknown
// (R22).
func (n *node) inspectDurable(v resp.Value) error {
	if v.IsError() || !strings.Contains(string(v.Bytes()), "aof_enabled:0") {
		return nil
	}
	n.group.mu.Lock()
	defer n.group.mu.Unlock()
	n.reporter.remarks.add(warnNotDurable)
	return nil
}

// hear takes what the server says of its role and history. What the user may
// not ask stays unknown (R22). An error ends the connection: nothing that is in
// flight counts, and the next handshake begins a quarantine.
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
	if err := n.group.config.Allow.check(&now); err != nil {
		return err
	}
	if member.ProcessOf(&now) != member.ProcessOf(&n.server) {
		return errRewritten
	}
	return nil
}

// errRewritten ends a connection to a server that has another replication
// history than at the handshake: it may have been a replica meanwhile (R23).
var errRewritten = errors.New("multiplex: the server began another replication history, so it may have been a replica")

// ReadTime parses the reply to TIME: seconds and microseconds. It returns
// ErrUnexpected for anything else, and for a time before 1970 or after 2255.
func ReadTime(v resp.Value) (time.Time, error) { return member.ReadTime(v) }
