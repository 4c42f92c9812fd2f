package redlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// nightly stands for the code under test: it does its work under a lock, and
// leaves it to another process that is faster.
func nightly(ctx context.Context, client *redlock.Client, report func()) error {
	lock, err := client.TryAcquire(ctx, "nightly-report", 10*time.Second)
	if errors.Is(err, redlock.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Release(ctx)
	report()
	return nil
}

// In a test, New ends the nodes and Client closes the client.
func ExampleNew() {
	_ = func(t *testing.T) { // func TestNightly(t *testing.T) {
		d := redlocktest.New(t, 5)
		client := d.Client(t)

		d.Node(0).Stop() // a minority
		if err := nightly(t.Context(), client, func() {}); err != nil {
			t.Error(err)
		}
		d.Node(1).Stop()
		d.Node(2).Stop() // a quorum
		if err := nightly(t.Context(), client, func() {}); !errors.Is(err, redlock.ErrNoQuorum) {
			t.Error("it went on without a lock:", err)
		}
	}
}

// In simulated time a lock of an hour costs no hour, and the order of events is
// always the same.
func ExampleNew_simulatedTime() {
	_ = func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := redlocktest.New(t, 3, redlocktest.MaxTTL(time.Hour)) // in the bubble, like the client
			client := d.Client(t)
			if _, err := client.Acquire(t.Context(), "invoice:7", time.Hour); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			for _, node := range d.Nodes() {
				if keys := node.Keys(); len(keys) > 0 {
					t.Error("a key outlived its lock:", keys)
				}
			}
		})
	}
}

// Without a test, as in TestMain, a deployment is started and closed by hand.
func ExampleStart() {
	d, err := redlocktest.Start(5)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	config := d.Config()
	config.NodeTimeout = 5 * time.Second // because this test may run on a busy machine
	client, err := redlock.New(context.Background(), config)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer client.Close(ctx)

	fmt.Println("all up:", nightly(ctx, client, func() { fmt.Println("reporting") }))
	for _, node := range d.Nodes()[:3] {
		node.Stop()
	}
	err = nightly(ctx, client, func() { fmt.Println("reporting") })
	fmt.Println("without a quorum:", errors.Is(err, redlock.ErrNoQuorum))
	// Output:
	// reporting
	// all up: <nil>
	// without a quorum: true
}

// Masters that restart empty forget their votes. So their votes do not count
// until the locks from before the restart are over.
func ExampleNode_RestartEmpty() {
	d, err := redlocktest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	config := d.Config()
	config.NodeTimeout = 5 * time.Second // because this test may run on a busy machine
	client, err := redlock.New(context.Background(), config)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer client.Close(ctx)

	_, err = client.Acquire(ctx, "invoice:7", 10*time.Second)
	fmt.Println("granted:", err == nil)
	d.Node(0).RestartEmpty()
	d.Node(1).RestartEmpty()
	_, err = client.TryAcquire(ctx, "invoice:7", 10*time.Second)
	fmt.Println("granted to another:", err == nil)
	// Output:
	// granted: true
	// granted to another: false
}

// Each round trip to the node takes this much longer. A quorum of the other
// nodes does not wait for it.
func ExampleNode_Delay() {
	d, err := redlocktest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	client, err := redlock.New(context.Background(), d.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer client.Close(ctx)

	d.Node(2).Delay(time.Minute)
	begun := time.Now()
	_, err = client.Acquire(ctx, "invoice:7", 30*time.Second)
	fmt.Println(err, "in less than a minute:", time.Since(begun) < time.Minute)
	// Output: <nil> in less than a minute: true
}
