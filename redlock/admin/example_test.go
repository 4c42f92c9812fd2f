package admin_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlocktest"
)

// Inspect shows the holder of a resource, for a dashboard or an operator. A
// holder recognizes its own lock by the token's fingerprint; the token is not
// shown.
func ExampleInspect() {
	d, err := redlocktest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	ctx := context.Background()
	config := d.Config()
	config.NodeTimeout = 5 * time.Second // because this test may run on a busy machine
	client, err := redlock.New(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	for up := 0; up < 3; time.Sleep(time.Millisecond) { // New does not wait for the last
		up = 0
		for _, n := range client.Nodes() {
			if n.State == redlock.NodeUp {
				up++
			}
		}
	}

	lock, err := client.Acquire(ctx, "invoice:7", 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := admin.Inspect(ctx, client, "invoice:7")
	if err != nil {
		fmt.Println(err)
		return
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
