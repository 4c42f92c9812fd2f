package conn_test

import (
	"context"
	"fmt"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
)

// serve starts a node in memory and returns a Config to reach it. For a real
// node, the Endpoint comes from ParseURL, and NetDial is nil.
func serve() (cfg conn.Config, stop func()) {
	network, node := redistest.NewNetwork(), redistest.NewNode(redistest.NodeConfig{})
	node.Serve(network.Listen("node:6379"))
	cfg = conn.Config{Endpoint: conn.Endpoint{Addr: "node:6379"}, NetDial: network.Dial}
	return cfg, func() { _, _ = node.Close(), network.Close() }
}

// Dial completes the handshake with a node. Exchange sends commands and waits
// for their replies.
func ExampleDial() {
	cfg, stop := serve()
	defer stop()
	ctx := context.Background()
	c, err := conn.Dial(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(c.Server().Product, c.Server().Role)

	commands := resp.AppendCommand(nil, "SET", "invoice:7", "a", "NX", "PX", "10000")
	commands = resp.AppendCommand(commands, "SET", "invoice:7", "b", "NX", "PX", "10000")
	commands = resp.AppendCommand(commands, "SELECT", "no number")
	err = c.Exchange(ctx, commands, 3, func(i int, v resp.Value) error {
		fmt.Printf("%d: ok=%t null=%t class=%q\n", i, v.IsOK(), v.IsNull(), conn.ClassOf(v))
		return nil // an error would break the connection
	})
	fmt.Println(err)
	// Output:
	// redis master
	// 0: ok=true null=false class=""
	// 1: ok=false null=true class=""
	// 2: ok=false null=false class="ERR"
	// <nil>
}

// Send never waits, so one goroutine can write to many connections. Another one
// reads: replies come in the order of the commands.
func ExampleConn_Send() {
	cfg, stop := serve()
	defer stop()
	c, err := conn.Dial(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	c.Expect(2, true) // announces two replies
	commands := resp.AppendCommand(nil, "SET", "invoice:7", "a")
	if err := c.Send(resp.AppendCommand(commands, "GET", "invoice:7")); err != nil {
		fmt.Println(err) // the connection is broken
		return
	}
	for replies := 0; replies < 2; {
		v, ok, err := c.Next()
		if err == nil && !ok {
			err = c.Fill() // waits for bytes from the node
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		if ok {
			replies++
			fmt.Printf("%v %q\n", v.Type(), v.Bytes())
		}
	}
	// Output:
	// SimpleString "OK"
	// BulkString "a"
}

// An optional step of the prelude tells whether the node has a command, without
// a round trip of its own.
func ExampleStep() {
	cfg, stop := serve()
	defer stop()
	for _, name := range []string{"GET", "DELEX"} {
		cfg.Prelude = append(cfg.Prelude, conn.Step{
			Name: name, Command: resp.AppendCommand(nil, name, "no such key"), Optional: true,
		})
	}
	c, err := conn.Dial(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(c.Server().Accepted, c.Server().Refused)
	// Output: [GET] [DELEX]
}
