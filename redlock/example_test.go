package redlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// work and build stand for the work under a lock.
func work(context.Context)        {}
func build(context.Context) error { return nil }

// inMemory returns a client of three nodes in memory, and deployed these too.
func inMemory() (client *redlock.Client, stop func()) {
	client, _, stop = deployed(func(*redlock.Config) {})
	return client, stop
}

func deployed(change func(*redlock.Config)) (client *redlock.Client, d *redlocktest.Deployment, stop func()) {
	d, err := redlocktest.Start(3)
	if err != nil {
		log.Fatal(err)
	}
	config := d.Config()
	config.NodeTimeout = 5 * time.Second // because this test may run on a busy machine
	change(&config)
	if client, err = redlock.New(context.Background(), config); err != nil {
		log.Fatal(err)
	}
	down := func(n redlock.NodeStatus) bool { return n.State != redlock.NodeUp }
	for begun := time.Now(); slices.ContainsFunc(client.Nodes(), down); time.Sleep(time.Millisecond) { // New does not wait for the last
		if time.Since(begun) > 30*time.Second {
			log.Fatalf("not up: %+v", client.Nodes())
		}
	}
	return client, d, func() {
		_ = client.Close(context.Background())
		_ = d.Close()
	}
}

// A lock is held for as long as its validity.
func Example() {
	ctx := context.Background()

	client, err := redlock.Open(ctx, "redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	lock, err := client.Acquire(ctx, "invoice:7", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)

	work(ctx) // for less than lock.Validity()
}

// The following examples run with nodes in memory, of package redlocktest.
func ExampleNew() {
	d, err := redlocktest.Start(5)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()

	client, err := redlock.New(context.Background(), redlock.Config{
		Nodes: redlock.Nodes(
			"redis://node0:6379", "redis://node1:6379", "redis://node2:6379", "redis://node3:6379", "redis://node4:6379",
		),
		Prefix:  "lock:",
		Connect: d.Config().Connect, // only because these nodes are in memory
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fmt.Println("a quorum is up:", client.Ready(ctx) == nil)
	// Output: a quorum is up: true
}

// A deployment behind TLS, with a user of its own for the locks; docs/deploy.md
// lists the rights that this user needs.
func ExampleConfig() {
	client, err := redlock.New(context.Background(), redlock.Config{
		Nodes: redlock.Nodes(
			"rediss://a.example.com:6379",
			"rediss://b.example.com:6379?tls_server_name=redis-b",
			"rediss://c.example.com:6379?tls_ca_file=/etc/redis/ca.pem",
		),
		Username:    "locker",
		Password:    "…", // or in the URLs, if the nodes have different ones
		Prefix:      "lock:",
		Connect:     redlock.Connect{ClientName: "billing-3"},
		TLS:         &tls.Config{MinVersion: tls.VersionTLS13},
		MinValidity: 5 * time.Second,
		Retry:       redlock.Retry{Tries: 10, FailFast: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
}

// One attempt: it returns after the time to a quorum, and losing is ordinary.
func ExampleClient_TryAcquire() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()

	lock, err := client.TryAcquire(ctx, "invoice:7", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	fmt.Println("ours:", lock.Resource())

	_, err = client.TryAcquire(ctx, "invoice:7", 10*time.Second)
	fmt.Println("once more:", err, errors.Is(err, redlock.ErrHeld))
	// Output:
	// ours: invoice:7
	// once more: redlock: resource is held true
}

// A wait ends with the lock or with the context. The error has the context's,
// the cause of its end, and why the call was waiting. The attempt in progress
// leaves nothing behind.
func ExampleClient_Acquire() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()
	held, err := client.Acquire(ctx, "invoice:7", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}

	errShutdown := errors.New("the server is shutting down")
	waiting, cancel := context.WithCancelCause(ctx)
	time.AfterFunc(time.Second, func() { cancel(errShutdown) })
	_, err = client.Acquire(waiting, "invoice:7", 10*time.Second)
	fmt.Println(errors.Is(err, context.Canceled), errors.Is(err, errShutdown), errors.Is(err, redlock.ErrHeld))
	fmt.Println(err)

	time.AfterFunc(50*time.Millisecond, func() { held.Release(ctx) })
	lock, err := client.Acquire(ctx, "invoice:7", 10*time.Second)
	fmt.Println(err)
	lock.Release(ctx)
	// Output:
	// true true true
	// redlock: "invoice:7": context canceled (the server is shutting down); resource is held
	// <nil>
}

// Long work extends its lock in time. A failed extension leaves the validity as
// it was, so there is time to try again or to stop.
func ExampleLock_Extend() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()

	lock, err := client.Acquire(ctx, "invoice:7", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	for part := range 3 {
		longer, err := lock.Extend(ctx, 20*time.Second)
		switch {
		case err == nil:
			lock = longer
		case lock.Validity() < time.Second:
			log.Fatal("stopping while it is still ours: ", err)
		}
		fmt.Println("part", part, lock.Validity() > 10*time.Second)
	}
	// Output:
	// part 0 true
	// part 1 true
	// part 2 true
}

// A nil error means that all of the work was done under the lock.
func ExampleClient_Do() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()

	err := client.Do(ctx, "report:2026", 30*time.Second, func(ctx context.Context) error {
		return build(ctx) // ctx ends when the lock is lost, by the local clock, before another client can have it
	})
	fmt.Println(err)
	// Output: <nil>
}

// A hold is for work that is not a single function: it is renewed until it is
// released, and its context ends if it is lost before.
func ExampleClient_Hold() {
	client, stop := inMemory()
	defer stop()

	hold, err := client.Hold(context.Background(), "invoice:7", redlock.HoldOptions{
		TTL:     10 * time.Second, // how long it outlives this process if that dies
		MaxHold: time.Hour,
	})
	if err != nil {
		log.Fatal(err)
	}
	work(hold.Context())
	if err := hold.Err(); err != nil {
		fmt.Println("what was done may have been done by another too:", err)
	}
	fmt.Println(hold.Release(context.Background()))
	fmt.Println(context.Cause(hold.Context()))
	// Output:
	// <nil>
	// redlock: lock was released
}

// Work under a hold ends with its context. The context ends by the local clock
// before another client can have the lock, here because the nodes are gone.
func ExampleHold_Context() {
	client, d, stop := deployed(func(*redlock.Config) {})
	defer stop()
	ctx := context.Background()

	hold, err := client.Hold(ctx, "invoice:7", redlock.HoldOptions{TTL: 300 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	for _, node := range d.Nodes() {
		node.Stop()
	}
	<-hold.Context().Done() // like each call that is given this context
	fmt.Println(errors.Is(context.Cause(hold.Context()), redlock.ErrLost))
	var lost *redlock.LostError
	if errors.As(hold.Err(), &lost) {
		fmt.Println("not held by the nodes:", lost.NotHeld)
	}
	err = hold.Release(ctx)
	fmt.Println("it is unknown whether it is free:", errors.Is(err, redlock.ErrNoQuorum))
	// Output:
	// true
	// not held by the nodes: false
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

// A service shuts down: first it takes no new requests, then Drain lets the
// work under locks finish, and Close comes last. Held says what Drain waits
// for.
func ExampleClient_Drain() {
	client, _, stop := deployed(func(c *redlock.Config) { c.ReleaseOnClose = true }) // Close releases what is not finished by then
	defer stop()

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
	_, err := client.TryAcquire(ctx, "invoice:7", 10*time.Second)
	fmt.Println("new locks:", err)
	fmt.Println("closed:", client.Close(ctx))
	// Output:
	// held: report:2026
	// drained: <nil>
	// new locks: redlock: "invoice:7": client is closed
	// closed: <nil>
}

// A transfer needs both accounts. A refusal says which one is in the way.
func ExampleClient_All() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()

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

// Readers share, and a writer is alone. The writer becomes a reader, and no
// other writer gets in between.
func ExampleClient_RW() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()
	prices := client.RW("prices")

	read, err := prices.Read().Acquire(ctx, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	second, err := prices.Read().TryAcquire(ctx, 10*time.Second)
	fmt.Println("another reader:", err)
	_, err = prices.Write().TryAcquire(ctx, 10*time.Second)
	fmt.Println("a writer is refused:", errors.Is(err, redlock.ErrHeld))
	_ = read.Release(ctx)
	_ = second.Release(ctx)

	write, err := prices.Write().Acquire(ctx, 10*time.Second)
	if err != nil {
		log.Fatal(err)
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
		log.Fatal(err)
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

// One process acquires a lock, another one on the same machine extends and
// releases it.
func ExampleClient_Adopt() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()

	lock, err := client.Acquire(ctx, "deploy", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	token := lock.Token()
	secret, until := string(token[:]), lock.Until().Format(time.RFC3339Nano)

	// The other process gets the two texts, in a file that other users cannot
	// read.
	token, err = redlock.ParseToken(secret)
	if err != nil {
		log.Fatal(err)
	}
	end, err := time.Parse(time.RFC3339Nano, until)
	if err != nil {
		log.Fatal(err)
	}
	adopted, err := client.Adopt("deploy", token, "", 10*time.Second, end)
	if err != nil {
		log.Fatal(err)
	}
	longer, err := adopted.Extend(ctx, 10*time.Second)
	fmt.Println("extended:", err == nil)
	fmt.Println("released:", longer.Release(ctx) == nil)
	// Output:
	// extended: true
	// released: true
}

// What the caller should do after each error. Losing a race is the ordinary
// case.
func Example_errors() {
	client, d, stop := deployed(func(*redlock.Config) {})
	defer stop()

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

// Nodes returns what a health check needs.
func ExampleClient_Nodes() {
	client, stop := inMemory()
	defer stop()
	for _, n := range client.Nodes() {
		fmt.Println(n.Addr, n.State, n.Server.Product, n.Err)
	}
	// Output:
	// node0:6379 up redis <nil>
	// node1:6379 up redis <nil>
	// node2:6379 up redis <nil>
}

// A tracer's functions get what a span needs: the caller's context for its
// parent, the start and the duration.
func ExampleTracer() {
	client, _, stop := deployed(func(c *redlock.Config) {
		c.Tracer = &redlock.Tracer{
			AttemptDone: func(_ context.Context, i redlock.CallInfo) {
				fmt.Println("attempt", i.Tries, i.Resource, i.TTL, i.Err, i.Elapsed > 0)
			},
			ReleaseDone: func(_ context.Context, i redlock.CallInfo) { fmt.Println("release", i.Resource, i.Err) },
		}
	})
	defer stop()
	ctx := context.Background()

	lock, err := client.Acquire(ctx, "invoice:7", 10*time.Second)
	if err != nil {
		return
	}
	lock.Release(ctx)
	// Output:
	// attempt 1 invoice:7 10s <nil> true
	// release invoice:7 <nil>
}
