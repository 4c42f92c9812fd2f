package failover

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
)

// A Way is how one client reaches the servers. It goes past the proxies before
// them: a primary that is cut off from its replicas still has clients.
type Way struct {
	// Direct is set for a client that is never left with a former primary. It
	// may reach the servers by itself.
	Direct bool
	nodes  []Node
	// outdated is the sentinel that a client reaches which was left with a
	// former primary. It names that one.
	outdated *redistest.Node
	at       []string // by node: its address, over TLS for some

	mu    sync.Mutex // guards the following
	stay  []string   // by node: the only server that is reached, if set
	conns map[*leash]bool
}

// nowhere is an address that no server has.
const nowhere = "nowhere"

var errUnreachable = errors.New("failover: not reachable by this client")

func newWay(nodes []Node) (*Way, error) {
	w := &Way{nodes: nodes, stay: make([]string, len(nodes)), conns: map[*leash]bool{}}
	w.outdated = redistest.NewNode(redistest.NodeConfig{})
	w.outdated.Handle(w.answer)
	for _, n := range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.close()
			return nil, err
		}
		w.at = append(w.at, l.Addr().String())
		if config := n.ServerTLS(); config != nil {
			l = tls.NewListener(l, config)
		}
		w.outdated.Serve(l)
	}
	return w, nil
}

func (w *Way) close() { _ = w.outdated.Close() }

// answer is what the outdated sentinel says. One node at a time fails over.
func (w *Way) answer(_ int, args []string) ([]byte, bool) {
	switch {
	case !strings.EqualFold(args[0], "SENTINEL"):
		return nil, false
	case len(args) < 2 || !strings.EqualFold(args[1], "GET-MASTER-ADDR-BY-NAME"):
		return []byte("*0\r\n"), true // it knows no other sentinels
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, addr := range w.stay {
		if host, port, err := net.SplitHostPort(addr); err == nil {
			b := resp.AppendArray(nil, 2)
			return resp.AppendBulkString(resp.AppendBulkString(b, host), port), true
		}
	}
	return []byte("*-1\r\n"), true
}

// Dial connects to a server or a sentinel.
func (w *Way) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	for i, n := range w.nodes {
		to, sentinel, ok := n.Route(addr)
		if !ok {
			continue
		}
		w.mu.Lock()
		stay := w.stay[i]
		w.mu.Unlock()
		switch {
		case stay == "":
		case sentinel && stay != nowhere:
			to = w.at[i]
		case stay != to:
			return nil, errUnreachable
		}
		var d net.Dialer
		c, err := d.DialContext(ctx, network, to)
		if err != nil {
			return nil, err
		}
		l := &leash{c, w, i, to, sentinel}
		w.mu.Lock()
		w.conns[l] = true
		stale := w.stay[i] != stay
		w.mu.Unlock()
		if stale {
			_ = l.Close()
			return nil, errUnreachable
		}
		return l, nil
	}
	return nil, errUnreachable
}

// Stay leaves the client only one server of a node, and a sentinel that is
// outdated. With "" it reaches all again.
func (w *Way) Stay(node int, addr string) {
	w.mu.Lock()
	w.stay[node] = addr
	var cut []*leash
	for l := range w.conns {
		if l.node == node && (l.sentinel || addr != "" && l.to != addr) {
			cut = append(cut, l)
		}
	}
	w.mu.Unlock()
	for _, l := range cut {
		_ = l.Close()
	}
}

// A leash is a connection that its way can end.
type leash struct {
	net.Conn
	way      *Way
	node     int
	to       string
	sentinel bool
}

// Close closes the connection.
func (l *leash) Close() error {
	l.way.mu.Lock()
	delete(l.way.conns, l)
	l.way.mu.Unlock()
	return l.Conn.Close()
}
