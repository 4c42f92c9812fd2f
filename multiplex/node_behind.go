package multiplex

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/resp"
)

// One name, several servers (R22): behind a name with several addresses, or
// behind a proxy, each client may reach another server. Such a node is several
// votes that forget each other. That shows in two ways:
//
//   - Once, beside its first connection, the node is dialed again. If another
//     process answers there, and then the connection's does, both live at one
//     time: a warning.
//   - A run id comes back that another one had replaced. A process that ended
//     does not return: the node is refused from then on.

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
		if theirs == "" || theirs == ours {
			continue
		}
		// Otherwise the server may have restarted meanwhile.
		_ = n.group.waitUntil(ctx, func() bool { return n.conn != c || n.group.live.Has(n.index) })
		if n.says(ctx, c, askAlive, "PONG") {
			n.warnOfOther(ours, theirs, e.Addr)
		}
		return
	}
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

// severalServers returns the error for a node with a former run id again.
func severalServers() error {
	return &PreflightError{"one server", "the address leads to several servers: a run id came back that another had replaced",
		"let the name or proxy lead to one server, and name each server by its own; then start this client anew", ErrNotMaster}
}
