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

// A kind of lock is a kind of claim and the kind of release that undoes it.
// This one needs no script, since its nodes have DELIFEQ (Valkey 9.0).
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

// connect starts three nodes, and a group that all of them have joined.
func connect(ctx context.Context) (g *multiplex.Group, stop func()) {
	nodes, stopNodes := serve(3)
	g, err := multiplex.New(multiplex.Config{Nodes: nodes})
	if err != nil {
		panic(err) // the configuration cannot work
	}
	if err := g.WaitTried(ctx); err != nil {
		fmt.Println(err)
	}
	return g, func() { _ = g.Close(ctx); stopNodes() }
}

// longer extends whatever key is there, which serves an example. A lock needs a
// script that compares the token first.
var longer = &multiplex.ExtendKind{Kind: freed.Kind}

// A program that holds thousands of keys extends them from one goroutine: it
// posts a command for each, has them written together, and takes the outcomes
// from one inbox.
func ExampleGroup_PostExtension() {
	ctx := context.Background()
	g, stop := connect(ctx)
	defer stop()
	for _, key := range []string{"invoice:7", "invoice:8"} {
		_, _ = take(ctx, g, key, "a")
	}

	inbox, waiting := multiplex.NewOutcomes(), 0
	for _, key := range []string{"invoice:7", "invoice:8", "invoice:9"} {
		_, err := g.PostExtension(longer, &multiplex.Command{
			Encoded: multiplex.Encoded{Bytes: resp.AppendCommand(nil, "PEXPIRE", key, "20000")},
			TTL:     20 * time.Second,
		}, multiplex.Posting{Inbox: inbox, Tag: key})
		if err != nil {
			fmt.Println(key, err) // nothing was sent, and no outcome will come
			continue
		}
		waiting++
	}
	g.Flush()
	for most := make([]multiplex.Outcome, 0, 64); waiting > 0; {
		<-inbox.Ready()
		for _, o := range inbox.Take(most) {
			fmt.Println(o.Tag, o.Err)
			waiting--
		}
	}
	// Unordered output:
	// invoice:7 <nil>
	// invoice:8 <nil>
	// invoice:9 multiplex: refused
}

// Query asks each node instead of a quorum: here, which token it knows.
func ExampleGroup_Query() {
	ctx := context.Background()
	g, stop := connect(ctx)
	defer stop()
	_, _ = take(ctx, g, "invoice:7", "a")

	tokens := make([]string, 3)
	question := [][]byte{resp.AppendCommand(nil, "GET", "invoice:7")}
	errs := g.Query(ctx, question, func(node, _ int, v resp.Value) error {
		if v.IsError() {
			tokens[node] = "it refuses to tell"
			return nil
		}
		tokens[node] = string(v.Bytes()) // v is not valid later
		return nil
	})
	for node, token := range tokens {
		fmt.Println(node, token, errs[node])
	}
	// Output:
	// 0 a <nil>
	// 1 a <nil>
	// 2 a <nil>
}

// A Lookout tells when a key that another client holds may be free, so that a
// wait does not mean asking again and again. Its signal is a hint: another
// claim may come first.
func ExampleGroup_Lookout() {
	ctx := context.Background()
	g, stop := connect(ctx)
	defer stop()
	receipt, _ := take(ctx, g, "invoice:7", "a")

	l := g.Lookout([]byte("invoice:7"))
	if l == nil {
		return // there are too many
	}
	defer l.Stop()
	time.AfterFunc(50*time.Millisecond, func() { _ = free(ctx, g, "invoice:7", "a", receipt) })
	for {
		told := l.Ask() // before the attempt, so that no release is missed
		if _, err := take(ctx, g, "invoice:7", "b"); err == nil {
			fmt.Println("b has it")
			return
		}
		var signal <-chan struct{}
		if told {
			signal = l.Signal()
		}
		select {
		case <-signal:
		case <-time.After(time.Second): // a push may be lost
		}
	}
	// Output: b has it
}
