package redlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// A service shuts down: first it takes no new requests, then Drain lets the
// work under locks finish, and Close comes last. Held says what Drain waits
// for.
func ExampleClient_Drain() {
	d, err := redlocktest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	config := d.Config()
	config.ReleaseOnClose = true // Close releases what is not finished by then
	client, err := redlock.New(context.Background(), config)
	if err != nil {
		fmt.Println(err)
		return
	}

	begun, mayEnd := make(chan struct{}), make(chan struct{})
	go client.Do(context.Background(), "report:2026", 30*time.Second, func(context.Context) error {
		close(begun)
		<-mayEnd
		return nil
	})
	<-begun

	// SIGTERM has arrived, and server.Shutdown(ctx) has returned.
	for _, hold := range client.Held() {
		fmt.Println("held:", hold.Resource)
	}
	close(mayEnd)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println("drained:", client.Drain(ctx))
	_, err = client.TryAcquire(ctx, "invoice:7", 10*time.Second)
	fmt.Println("new locks:", err)
	fmt.Println("closed:", client.Close(ctx))
	// Output:
	// held: report:2026
	// drained: <nil>
	// new locks: redlock: "invoice:7": client is closed
	// closed: <nil>
}

// Work under Do finds its lock in its context, in any function.
func ExampleFromContext() {
	client, stop := inMemory()
	defer stop()

	write := func(ctx context.Context) error {
		hold, ok := redlock.FromContext(ctx)
		if !ok {
			return fmt.Errorf("write without a lock")
		}
		if err := hold.Err(); err != nil { // reads the clocks
			return err
		}
		fmt.Println("writes under", hold.Resource())
		return nil
	}
	err := client.Do(context.Background(), "report:2026", 30*time.Second, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return write(ctx)
	})
	fmt.Println(err)
	// Output:
	// writes under report:2026
	// <nil>
}
