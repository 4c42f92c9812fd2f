package multiplex_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// serve starts nodes in memory and returns how to reach them. For real nodes,
// each Endpoint comes from conn.ParseURL, and NetDial stays nil.
func serve(n int) (nodes []conn.Config, stop func()) {
	network := redistest.NewNetwork()
	for i := range n {
		node, addr := redistest.NewNode(redistest.NodeConfig{}), fmt.Sprintf("node%d:6379", i)
		node.Native("DELIFEQ")
		node.Serve(network.Listen(addr))
		nodes = append(nodes, conn.Config{Endpoint: conn.Endpoint{Addr: addr}, NetDial: network.Dial})
	}
	return nodes, func() { _ = network.Close() }
}

// A kind of lock is a kind of claim and the kind of release that undoes it. This
// one needs no script, since its nodes have DELIFEQ (Valkey 9.0).
var (
	freed = &multiplex.ReleaseKind{Kind: multiplex.Kind{Judge: func(v resp.Value) multiplex.Vote {
		switch n, ok := v.Int64(); {
		case ok && n == 1:
			return multiplex.Granted
		case ok && n == 0:
			return multiplex.Refused
		}
		return multiplex.Alien // no reply to this command: the connection ends
	}}}
	taken = &multiplex.ClaimKind{Undo: freed, Kind: multiplex.Kind{Judge: func(v resp.Value) multiplex.Vote {
		switch {
		case v.IsOK():
			return multiplex.Granted
		case v.IsNull():
			return multiplex.Refused
		}
		return multiplex.Alien
	}}}
)

// take claims a key for ten seconds.
func take(ctx context.Context, g *multiplex.Group, key, token string) (multiplex.Receipt, error) {
	return g.Claim(ctx, taken, &multiplex.Claim{
		Bytes: resp.AppendCommand(nil, "SET", key, token, "NX", "PX", "10000"),
		TTL:   10 * time.Second,
		Undo: func(dst []byte) multiplex.Encoded {
			return multiplex.Encoded{Bytes: resp.AppendCommand(dst, "DELIFEQ", key, token)}
		},
	})
}

// free releases it.
func free(ctx context.Context, g *multiplex.Group, key, token string, receipt multiplex.Receipt) error {
	return g.Release(ctx, freed, &multiplex.Command{
		Encoded: multiplex.Encoded{Bytes: resp.AppendCommand(nil, "DELIFEQ", key, token)},
		TTL:     10 * time.Second,
		Receipt: receipt,
	})
}

// Claim and Release ask a quorum of nodes. What a claim that was refused has
// set is undone on every node before Claim returns.
func ExampleGroup_Claim() {
	nodes, stop := serve(3)
	defer stop()
	ctx := context.Background()
	g, err := multiplex.New(multiplex.Config{Nodes: nodes})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close(ctx)
	if err := g.Ready(ctx); err != nil {
		fmt.Println(err)
		return
	}

	receipt, err := take(ctx, g, "invoice:7", "a")
	fmt.Println(err)
	_, err = take(ctx, g, "invoice:7", "b")
	fmt.Println(err)
	fmt.Println(free(ctx, g, "invoice:7", "b", multiplex.Receipt{}))
	fmt.Println(free(ctx, g, "invoice:7", "a", receipt))
	// Output:
	// <nil>
	// multiplex: refused
	// multiplex: refused
	// <nil>
}
