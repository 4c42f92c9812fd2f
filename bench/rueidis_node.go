package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"

	"github.com/redis/rueidis"
	"github.com/redmux/redmux/conn"
)

// rueidisNode is a master, asked by rueidis.
type rueidisNode struct{ client rueidis.Client }

var (
	errNotAnAnswer = errors.New("bench: the reply cannot answer a SET")
	errRefused     = errors.New("rueidis refused its options")
)

// dialRueidis connects and loads the release script, so that EVALSHA finds it.
// A node that cannot be reached is no error.
func (cfg *RueidisConfig) dialRueidis(e conn.Endpoint) (Node, error) {
	o := cfg.options(e)
	// With ForceSingleClient, NewClient returns a client even if the dial
	// failed. A missing client means that rueidis refused its options.
	c, err := rueidis.NewClient(o)
	if errors.Is(err, rueidis.ErrNoCache) {
		// miniredis has no tracking; rueidis then demands this option.
		o.DisableCache = true
		if c != nil {
			c.Close()
		}
		c, _ = rueidis.NewClient(o)
	}
	if c == nil {
		return nil, errRefused
	}
	c.Do(context.Background(), c.B().ScriptLoad().Script(ReleaseScript).Build())
	return &rueidisNode{c}, nil
}

func (cfg *RueidisConfig) options(e conn.Endpoint) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: []string{e.Addr},
		TLSConfig:   e.TLS,
		Username:    e.Username,
		Password:    e.Password,
		SelectDB:    e.DB,
		ClientName:  e.ClientName,
		AlwaysRESP2: e.Protocol == 2,
		Dialer:      net.Dialer{Timeout: e.DialTimeout, KeepAlive: e.KeepAlive},
		// Take the node for a master without asking; a dead one is no error.
		ForceSingleClient: true,
	}
	if e.Network == "unix" {
		o.DialCtxFn = dialUnix
	}
	if cfg.Tune != nil {
		cfg.Tune(&o)
	}
	return o
}

func dialUnix(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	return d.DialContext(ctx, "unix", path)
}

// Set implements Node. It does not pass the caller's context to rueidis: a call
// that gives up early would leave its SET in the queue, for the release to
// overtake on another connection. Without a context, rueidis can also take its
// fastest path.
func (n *rueidisNode) Set(resource, token, ttl string) (bool, error) {
	cmd := n.client.B().Arbitrary("SET").Keys(resource).Args(token, "NX", "PX", ttl).Build()
	reply, err := n.client.Do(context.Background(), cmd).ToString()
	switch {
	case err == nil && reply == "OK":
		return true, nil
	case rueidis.IsRedisNil(err):
		return false, nil
	case err == nil:
		err = errNotAnAnswer
	}
	return false, err
}

// Delete implements Node.
func (n *rueidisNode) Delete(resource, token string) (bool, error) {
	cmd := n.client.B().Arbitrary("EVALSHA", ReleaseSHA, "1").Keys(resource).Args(token).Build()
	deleted, err := n.client.Do(context.Background(), cmd).AsInt64()
	if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() {
		cmd = n.client.B().Arbitrary("EVAL", ReleaseScript, "1").Keys(resource).Args(token).Build()
		deleted, err = n.client.Do(context.Background(), cmd).AsInt64()
	}
	return deleted == 1, err
}

// Close implements Node.
func (n *rueidisNode) Close() { n.client.Close() }

// NodeInfo is what a node reports about itself.
type NodeInfo struct {
	Addr    string
	Product string // "redis", "valkey", …; empty if the node did not answer
	Version string
	Err     error // why it did not answer
}

// Nodes asks all nodes at once for their product and version and waits for the
// answers. Of nodes that Dial opened it tells the address only.
func (l *Rueidis) Nodes(ctx context.Context) []NodeInfo {
	infos := make([]NodeInfo, len(l.nodes))
	var asks sync.WaitGroup
	for i := range l.nodes {
		asks.Go(func() { infos[i] = l.nodes[i].info(ctx) })
	}
	asks.Wait()
	return infos
}

// info sends HELLO 3, which changes nothing on a RESP3 connection and names the
// product even if INFO pretends to be an old Redis.
func (p *peer) info(ctx context.Context) NodeInfo {
	info := NodeInfo{Addr: p.addr}
	n, ok := p.node.(*rueidisNode)
	if !ok {
		return info
	}
	hello, err := n.client.Do(ctx, n.client.B().Arbitrary("HELLO", "3").Build()).AsMap()
	if err != nil {
		info.Err = err
		return info
	}
	// A field that is missing or not a string stays empty.
	product, version := hello["server"], hello["version"]
	info.Product, _ = product.ToString()
	info.Version, _ = version.ToString()
	return info
}
