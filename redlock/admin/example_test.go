package admin_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlocktest"
)

// An operator opens the deployment once, in a program or with redlock init. The
// first client then need not wait.
func ExampleInit() {
	d, _, stop := deployed()
	defer stop()
	config := d.Config()
	config.Prefix = "lock:" // of another deployment on the same masters

	opened, err := admin.Init(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("opened:", opened.New, "nodes:", opened.Nodes, "MaxTTL:", opened.MaxTTL)

	opened, err = admin.Init(context.Background(), config)
	fmt.Println("once more:", opened.New, err)
	// Output:
	// opened: true nodes: 3 MaxTTL: 30s
	// once more: false <nil>
}

// deployed returns three nodes in memory, and a client of theirs.
func deployed() (d *redlocktest.Deployment, client *redlock.Client, stop func()) {
	d, err := redlocktest.Start(3)
	if err != nil {
		log.Fatal(err)
	}
	config := d.Config()
	config.NodeTimeout = 5 * time.Second // because this test may run on a busy machine
	client, err = redlock.New(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	return d, client, func() {
		_ = client.Close(context.Background())
		_ = d.Close()
	}
}

// Inspect shows the holder of a resource, for a dashboard or an operator. A
// holder recognizes its own lock by the token's fingerprint; the token is not
// shown.
func ExampleInspect() {
	d, client, stop := deployed()
	defer stop()
	ctx := context.Background()
	for up := 0; up < len(d.Nodes()); time.Sleep(time.Millisecond) { // New does not wait for the last
		up = 0
		for _, n := range client.Nodes() {
			if n.State == redlock.NodeUp {
				up++
			}
		}
	}

	lock, err := client.Acquire(ctx, "invoice:7", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	found, err := admin.Inspect(ctx, client, "invoice:7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.State, "by us:", found.Holder == lock.Token().Fingerprint())
	fmt.Println("for less than 10 s:", found.TTL < 10*time.Second, "on a quorum:", found.Agree >= 2)

	lock.Release(ctx)
	found, err = admin.Inspect(ctx, client, "invoice:7")
	fmt.Println(found.State, err)
	// Output:
	// held by us: true
	// for less than 10 s: true on a quorum: true
	// free <nil>
}
