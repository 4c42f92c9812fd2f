package redlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redmux/redmux/redlock"
)

// One process acquires a lock, another one on the same machine extends and
// releases it.
func ExampleClient_Adopt() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()

	lock, err := client.Acquire(ctx, "deploy", 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	token := lock.Token()
	secret, until := string(token[:]), lock.Until().Format(time.RFC3339Nano)

	// The other process gets the two texts, in a file that other users cannot
	// read.
	token, err = redlock.ParseToken(secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	end, err := time.Parse(time.RFC3339Nano, until)
	if err != nil {
		fmt.Println(err)
		return
	}
	adopted, err := client.Adopt("deploy", token, 10*time.Second, end)
	if err != nil {
		fmt.Println(err)
		return
	}
	longer, err := adopted.Extend(ctx, 10*time.Second)
	fmt.Println("extended:", err == nil)
	fmt.Println("released:", longer.Release(ctx) == nil)
	// Output:
	// extended: true
	// released: true
}
