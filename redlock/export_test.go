package redlock

import (
	"context"
	"net"
)

// InMemory starts nodes for examples: node0, node1, … with a way to dial them and to end them.
func InMemory(n int) (dial func(ctx context.Context, network, addr string) (net.Conn, error), stop func()) {
	m := startMemory(n)
	return m.network.Dial, m.close
}

// ACLRights are what the least privileged user has.
const ACLRights = aclRights
