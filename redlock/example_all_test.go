package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// A transfer needs both accounts. A refusal says which one is in the way.
func ExampleClient_All() {
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

	lock, err := client.All("account:2", "account:1").TryAcquire(ctx, 10*time.Second)
	fmt.Println(lock.Resources(), err)
	_, err = client.All("account:1", "account:3").TryAcquire(ctx, 10*time.Second)
	fmt.Println(errors.Is(err, redlock.ErrHeld), err)
	fmt.Println(lock.Release(ctx))
	// Output:
	// [account:2 account:1] <nil>
	// true redlock: "account:1, account:3": "account:1" is held
	// <nil>
}
