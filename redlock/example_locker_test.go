package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redmux/redmux/redlock"
)

// Readers share, and a writer is alone. The writer becomes a reader, and no
// other writer gets in between.
func ExampleClient_RW() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()
	prices := client.RW("prices")

	read, err := prices.Read().Acquire(ctx, 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := prices.Read().TryAcquire(ctx, 10*time.Second)
	fmt.Println("another reader:", err)
	_, err = prices.Write().TryAcquire(ctx, 10*time.Second)
	fmt.Println("a writer is refused:", errors.Is(err, redlock.ErrHeld))
	_ = read.Release(ctx)
	_ = second.Release(ctx)

	write, err := prices.Write().Acquire(ctx, 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	read, err = prices.Downgrade(ctx, write, 10*time.Second)
	fmt.Println("the writer reads:", err)
	_ = read.Release(ctx)
	// Output:
	// another reader: <nil>
	// a writer is refused: true
	// the writer reads: <nil>
}

// At most two workers at a time, in all processes.
func ExampleClient_Semaphore() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()
	workers := client.Semaphore("workers", 2)

	for range 3 {
		lock, err := workers.TryAcquire(ctx, 10*time.Second)
		if errors.Is(err, redlock.ErrHeld) {
			fmt.Println("two are at work")
			continue
		}
		fmt.Println("at work:", err)
		defer lock.Release(ctx)
	}
	// Output:
	// at work: <nil>
	// at work: <nil>
	// two are at work
}

// A caller that waits knows its place.
func ExampleClient_Fair() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()
	printer := client.Fair("printer")

	lock, err := printer.Acquire(ctx, 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Release(ctx)
	for range 2 {
		waiting, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = printer.Acquire(waiting, 10*time.Second)
		if held := (*redlock.HeldError)(nil); errors.As(err, &held) {
			fmt.Println("place in the queue:", held.Place) // the one before has left it
		}
	}
	// Output:
	// place in the queue: 1
	// place in the queue: 1
}
