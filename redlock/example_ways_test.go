package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// What the caller should do after each error. Losing a race is the ordinary
// case.
func Example_errors() {
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

	try := func(ctx context.Context, resource string) {
		_, err := client.TryAcquire(ctx, resource, 10*time.Second)
		var cancelled *redlock.CancelledError
		switch {
		case err == nil:
			fmt.Println("ours")
		case errors.As(err, &cancelled): // first, since it also matches the last attempt's outcome
			fmt.Println("ctx ended; no key was left")
		case errors.Is(err, redlock.ErrHeld):
			fmt.Println("another has it: try later, or leave it to them")
		case errors.Is(err, redlock.ErrNoQuorum):
			fmt.Println("too few nodes answer: the error names them and their causes")
		case errors.Is(err, redlock.ErrExpired), errors.Is(err, redlock.ErrOverloaded):
			fmt.Println("the nodes, or this process, are too slow for this TTL: try later")
		case errors.Is(err, redlock.ErrClosed):
			fmt.Println("we are shutting down")
		default: // ErrResource, ErrTTL
			fmt.Println("the call cannot be made:", err)
		}
	}
	ctx := context.Background()
	try(ctx, "invoice:7")
	try(ctx, "invoice:7")
	try(ctx, "")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	try(ended, "invoice:8")
	d.Node(0).Stop()
	d.Node(1).Stop()
	try(ctx, "invoice:9")
	client.Close(ctx)
	try(ctx, "invoice:10")
	// Output:
	// ours
	// another has it: try later, or leave it to them
	// the call cannot be made: redlock: "": a resource of 0 bytes: it must have 1 to 1024
	// ctx ended; no key was left
	// too few nodes answer: the error names them and their causes
	// we are shutting down
}

// A wait ends with its context, and the error has all three: the context's
// error, the cause of the cancellation, and why the call was waiting. The
// attempt in progress leaves nothing behind.
func ExampleClient_Acquire_cancelled() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()
	if _, err := client.Acquire(ctx, "invoice:7", 10*time.Second); err != nil {
		fmt.Println(err)
		return
	}

	errShutdown := errors.New("the server is shutting down")
	waiting, cancel := context.WithCancelCause(ctx)
	time.AfterFunc(time.Second, func() { cancel(errShutdown) })
	_, err := client.Acquire(waiting, "invoice:7", 10*time.Second)
	fmt.Println(errors.Is(err, context.Canceled), errors.Is(err, errShutdown), errors.Is(err, redlock.ErrHeld))
	fmt.Println(err)
	// Output:
	// true true true
	// redlock: "invoice:7": context canceled (the server is shutting down); resource is held
}

// Work under a hold ends with its context. The context ends by the local clock
// before another client can have the lock, here because the nodes are gone.
func ExampleHold_Context() {
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

	hold, err := client.Hold(ctx, "invoice:7", redlock.HoldOptions{TTL: 300 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, node := range d.Nodes() {
		node.Stop()
	}
	<-hold.Context().Done() // like each call that is given this context
	fmt.Println(errors.Is(context.Cause(hold.Context()), redlock.ErrLost))
	var lost *redlock.LostError
	if errors.As(hold.Err(), &lost) {
		fmt.Println("refused by the nodes:", lost.Refused)
	}
	err = hold.Release(ctx)
	fmt.Println("it is unknown whether it is free:", errors.Is(err, redlock.ErrNoQuorum))
	// Output:
	// true
	// refused by the nodes: false
	// it is unknown whether it is free: true
}

// A job that many schedulers start at the same time runs once: MinHold keeps
// the lock from schedulers whose clocks are late, even if the job is over in a
// moment.
func ExampleLocker_DoWith() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()

	options := redlock.HoldOptions{TTL: 30 * time.Second, MinHold: 10 * time.Second}
	for range 2 {
		short, cancel := context.WithTimeout(ctx, time.Second)
		err := client.Lock("nightly").DoWith(short, options, func(context.Context) error {
			fmt.Println("running")
			return nil
		})
		fmt.Println("run elsewhere:", errors.Is(err, redlock.ErrHeld))
		cancel()
	}
	// Output:
	// running
	// run elsewhere: false
	// run elsewhere: true
}

// The password comes from the configuration, where nothing prints it, or from
// the URL of each node. For a separate user, also set Username; docs/deploy.md
// lists the rights that this user needs.
func ExampleConfig_password() {
	d, err := redlocktest.Start(3, redlocktest.Password("correct horse"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	ctx := context.Background()

	for _, password := range []string{"correct horse", "battery staple"} {
		config := d.Config()
		config.Password, config.NodeTimeout = password, 5*time.Second
		client, err := redlock.New(context.Background(), config)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = client.TryAcquire(ctx, "invoice:7", 10*time.Second)
		fmt.Println(err == nil, errors.Is(err, redlock.ErrNoQuorum))
		client.Close(ctx)
	}
	// Output:
	// true false
	// false true
}

// A custom dialer: through a proxy, from a chosen address, with another name
// resolution. If a URL asks for TLS, it is added to the returned connection.
func ExampleConfig_netDial() {
	d, err := redlocktest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	var dialed atomic.Int32

	config := d.Config()
	inMemory := config.Connect.NetDial // or (&net.Dialer{…}).DialContext
	config.Connect.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Add(1) // ctx bounds it by DialTimeout
		return inMemory(ctx, network, addr)
	}
	client, err := redlock.New(context.Background(), config)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer client.Close(ctx)
	fmt.Println(client.Ready(ctx), dialed.Load() >= 2)
	// Output: <nil> true
}

// Package redlocktest has nodes for your own tests, which stop, restart empty,
// freeze and answer late when the test says so, also in simulated time.
func Example_testing() {
	_ = func(t *testing.T) { // func TestReportWithoutLocks(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := redlocktest.New(t, 5)
			client := d.Client(t)
			for _, node := range d.Nodes()[:3] {
				node.Stop()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // which takes no real time
			defer cancel()
			err := client.Do(ctx, "report:2026", 30*time.Second, build)
			if !errors.Is(err, redlock.ErrNoQuorum) {
				t.Error("it was built without a lock:", err)
			}
		})
	}
}
