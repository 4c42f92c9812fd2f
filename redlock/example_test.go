package redlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"slices"
	"syscall"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlocktest"
)

// work and build stand for the work under a lock.
func work(context.Context)        {}
func build(context.Context) error { return nil }

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
		fmt.Println(err)
		return
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
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fmt.Println("a quorum is up:", client.Ready(ctx) == nil)
	// Output: a quorum is up: true
}

// An operator opens the deployment once, in a program or with redlock init. The
// first client then need not wait.
func ExampleInit() {
	config, stop := masters()
	defer stop()
	ctx := context.Background()

	d, err := admin.Init(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("opened:", d.New, "nodes:", d.Nodes, "MaxTTL:", d.MaxTTL)

	d, err = admin.Init(ctx, config)
	fmt.Println("once more:", d.New, err)
	// Output:
	// opened: true nodes: 3 MaxTTL: 30s
	// once more: false <nil>
}

// One attempt: it returns after the time to a quorum, and losing is ordinary.
func ExampleClient_TryAcquire() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()

	lock, err := client.TryAcquire(ctx, "invoice:7", 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Release(ctx)
	fmt.Println("ours:", lock.Resource())

	_, err = client.TryAcquire(ctx, "invoice:7", 10*time.Second)
	fmt.Println("once more:", err, errors.Is(err, redlock.ErrHeld))
	// Output:
	// ours: invoice:7
	// once more: redlock: resource is held true
}

// A wait ends with the lock or with the context. A caller that gave up learns
// why it had to wait.
func ExampleClient_Acquire() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()

	held, err := client.Acquire(ctx, "invoice:7", 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}

	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = client.Acquire(short, "invoice:7", 10*time.Second)
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, redlock.ErrHeld))

	time.AfterFunc(50*time.Millisecond, func() { held.Release(ctx) })
	lock, err := client.Acquire(ctx, "invoice:7", 10*time.Second)
	fmt.Println(err)
	lock.Release(ctx)
	// Output:
	// redlock: "invoice:7": context deadline exceeded; resource is held
	// true true
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
		fmt.Println(err)
		return
	}
	defer lock.Release(ctx)
	for part := range 3 {
		if lock.Validity() < 8*time.Second {
			longer, err := lock.Extend(ctx, 10*time.Second)
			switch {
			case err == nil:
				lock = longer
			case lock.Validity() < time.Second:
				fmt.Println("stopping while it is still ours:", err)
				return
			}
		}
		fmt.Println("part", part)
	}

	longer, err := lock.Extend(ctx, 20*time.Second)
	fmt.Println(err, longer.Until().After(lock.Until()))
	// Output:
	// part 0
	// part 1
	// part 2
	// <nil> true
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
		fmt.Println(err)
		return
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

// The error of a release tells whether the lock was held until the end of the
// work.
func ExampleLock_Release() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()

	lock, err := client.Acquire(ctx, "invoice:7", 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	work(ctx)

	for range 2 { // twice is harmless
		switch err := lock.Release(ctx); {
		case err == nil:
			fmt.Println("it was ours to the end")
		case errors.Is(err, redlock.ErrNotHeld):
			fmt.Println("it was not ours any more")
		case errors.Is(err, redlock.ErrNoQuorum):
			fmt.Println("it is unknown; nodes that are down get the release when they are back")
		}
	}
	// Output:
	// it was ours to the end
	// it was not ours any more
}

// Without a quorum the error names each node and its own cause.
func ExampleErrNoQuorum() {
	d, err := redlocktest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	d.Node(1).Stop()
	d.Node(2).Stop()
	config := d.Config()
	config.NodeTimeout = 5 * time.Second // because this test may run on a busy machine
	client, err := redlock.New(context.Background(), config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	_, err = client.TryAcquire(context.Background(), "invoice:7", 10*time.Second)
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum), errors.Is(err, multiplex.ErrDown))
	var undecided *multiplex.UndecidedError
	if errors.As(err, &undecided) {
		for _, n := range undecided.Nodes {
			fmt.Println(n.Node, n.Addr, errors.Is(n, syscall.ECONNREFUSED))
		}
	}
	// Output:
	// true true
	// 1 node1:6379 true
	// 2 node2:6379 true
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

// MaxTTL bounds the TTLs of all clients of a deployment, and is how long a
// master that restarted is not counted. It is 30 s unless it is set.
func ExampleConfig_maxTTL() {
	d, err := redlocktest.Start(3, redlocktest.MaxTTL(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	ctx := context.Background()

	config := d.Config() // MaxTTL is a minute
	client, err := redlock.New(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	fmt.Println("ready:", client.Ready(ctx))
	_, err = client.TryAcquire(ctx, "invoice:7", time.Hour)
	fmt.Println("for an hour:", err)

	config.MaxTTL = time.Hour
	odd, err := redlock.New(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer odd.Close(ctx)
	_, err = odd.TryAcquire(ctx, "invoice:7", time.Minute)
	fmt.Println("one with another MaxTTL:", errors.Is(err, redlock.ErrMaxTTL))
	// Output:
	// ready: <nil>
	// for an hour: redlock: "invoice:7": a TTL of 1h0m0s cannot be used: Config.MaxTTL is 1m0s; a longer one must be set on all clients
	// one with another MaxTTL: true
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

// A metrics exporter reads Stats from time to time.
func ExampleClient_Stats() {
	client, stop := inMemory()
	defer stop()
	ctx := context.Background()

	for range 3 {
		lock, err := client.TryAcquire(ctx, "invoice:7", 10*time.Second)
		if err != nil {
			fmt.Println(err)
			return
		}
		client.TryAcquire(ctx, "invoice:7", 10*time.Second)
		lock.Release(ctx)
	}
	stats := client.Stats()
	fmt.Println("acquired", stats.Attempts.Granted, "held by others", stats.Attempts.Refused)
	fmt.Println("released", stats.Releases.Granted)
	fmt.Println("a quorum took a time:", stats.Quorum.Quantile(0.99) > 0)
	// Output:
	// acquired 3 held by others 3
	// released 3
	// a quorum took a time: true
}

// A tracer's functions get what a span needs: the caller's context for its
// parent, the start and the duration.
func ExampleTracer() {
	d, err := redlocktest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	config := d.Config()
	config.NodeTimeout = 5 * time.Second // because this test may run on a busy machine
	config.Tracer = &redlock.Tracer{
		AttemptDone: func(_ context.Context, i redlock.CallInfo) {
			fmt.Println("attempt", i.Tries, i.Resource, i.TTL, i.Err, i.Elapsed > 0)
		},
		ReleaseDone: func(_ context.Context, i redlock.CallInfo) { fmt.Println("release", i.Resource, i.Err) },
	}
	client, err := redlock.New(context.Background(), config)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer client.Close(ctx)

	lock, err := client.Acquire(ctx, "invoice:7", 10*time.Second)
	if err != nil {
		return
	}
	lock.Release(ctx)
	// Output:
	// attempt 1 invoice:7 10s <nil> true
	// release invoice:7 <nil>
}

// up reports whether all nodes of a client are up.
func up(client *redlock.Client) bool {
	return !slices.ContainsFunc(client.Nodes(), func(n redlock.NodeStatus) bool { return n.State != "up" })
}

// masters returns how to reach three nodes in memory that are in no deployment
// with this prefix.
func masters() (config redlock.Config, stop func()) {
	d, err := redlocktest.Start(3)
	if err != nil {
		log.Fatal(err)
	}
	config = d.Config()
	config.Prefix = "lock:"
	return config, func() { _ = d.Close() }
}

// inMemory returns a client of three nodes in memory.
func inMemory() (client *redlock.Client, stop func()) {
	d, err := redlocktest.Start(3)
	if err != nil {
		log.Fatal(err)
	}
	config := d.Config()
	config.NodeTimeout = 5 * time.Second // because this test may run on a busy machine
	if client, err = redlock.New(context.Background(), config); err != nil {
		log.Fatal(err)
	}
	for begun := time.Now(); !up(client); time.Sleep(time.Millisecond) { // New does not wait for the last
		if time.Since(begun) > 30*time.Second {
			log.Fatalf("not up: %+v", client.Nodes())
		}
	}
	return client, func() {
		_ = client.Close(context.Background())
		_ = d.Close()
	}
}
