package bench

import (
	"context"
	"sync"
)

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
