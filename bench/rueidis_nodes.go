package bench

import (
	"context"
	"sync"
)

// NodeInfo is what a node says of itself.
type NodeInfo struct {
	Addr    string
	Product string // "redis", "valkey" …; empty where it did not answer
	Version string
	Err     error // why it did not
}

// Nodes asks every node what it is, all at once, and waits for the answers.
func (l *Rueidis) Nodes(ctx context.Context) []NodeInfo {
	infos := make([]NodeInfo, len(l.nodes))
	var asks sync.WaitGroup
	for i := range l.nodes {
		asks.Go(func() { infos[i] = l.nodes[i].info(ctx) })
	}
	asks.Wait()
	return infos
}

// info asks with HELLO 3, which changes nothing on a connection that speaks it and
// tells the product also where INFO pretends to be a Redis of old.
func (n *rueidisNode) info(ctx context.Context) NodeInfo {
	info := NodeInfo{Addr: n.addr}
	hello, err := n.client.Do(ctx, n.client.B().Arbitrary("HELLO", "3").Build()).AsMap()
	if err != nil {
		info.Err = err
		return info
	}
	// A field that is missing or no string stays empty.
	product, version := hello["server"], hello["version"]
	info.Product, _ = product.ToString()
	info.Version, _ = version.ToString()
	return info
}
