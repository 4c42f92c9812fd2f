// Package redlock provides distributed locks by the algorithm of the redis.io
// page "Distributed Locks with Redis": a lock is granted for a time by a quorum
// of N independent Redis or Valkey masters.
//
//	client, err := redlock.Open(ctx, "redis://10.0.0.1",
//		"redis://10.0.0.2", "redis://10.0.0.3")
//	err = client.Do(ctx, "invoice:7", 10*time.Second,
//		func(ctx context.Context) error {
//			return send(ctx, invoice) // until ctx ends
//		})
//
// [Client.Do] waits for the lock, renews it while the function runs, and
// releases it. The TTL is how long the lock outlives a process that dies. The
// function's context ends, by the local clocks, before another client can have
// the lock: then the work must stop. [DoValue] is for functions that return a
// value. Without a function there are
//
//	hold, err := client.Hold(ctx, "invoice:7", options)   // renewed
//	lock, err := client.Acquire(ctx, "invoice:7", ttl)    // not renewed
//	lock, err := client.TryAcquire(ctx, "invoice:7", ttl) // one attempt
//
// with [Hold.Release], [Lock.Extend] and [Lock.Release].
//
// # Errors
//
// Test for them with errors.Is. [ErrHeld] is ordinary: another client has the
// lock. [ErrNoQuorum] names each node that did not answer with its cause.
// [ErrLost] says that work was done, or may have been, without the lock. A
// [CancelledError] is also the error of the context, and of the last attempt.
// Acquire, Hold and Do wait in the first two cases, unless waiting cannot help.
// A nil context or function panics.
//
// # Kinds of lock
//
// Each kind has a [Locker], with the same methods:
//
//	client.Lock("invoice:7")                 // one holder
//	client.All("account:1", "account:2")     // all of them, or none
//	client.RW("prices").Read()               // many readers, or one writer
//	client.RW("prices").Write()
//	client.Semaphore("workers", 8)           // so many holders
//	client.Fair("printer")                   // one holder, in order of arrival
//
// Package election elects a leader among processes, and package admin has what
// operators need: opening a deployment, and asking who holds a resource.
//
// # What is promised
//
// At most one client holds a resource at a time within validity, provided that
// clocks run at nearly the same rate ([Config].DriftFactor) and do not step,
// all clients name the same masters, Prefix and MaxTTL, and no master loses a
// key before its time. Nothing is promised about work done after the validity
// has ended, unless the protected resource itself compares a fencing number
// ([Lock.Fence]), nor about the order in which clients get a lock, except by
// [Client.Fair]. No client can prevent two holders in these cases:
//
//   - A client is paused between its check and its act. Read [Lock.Validity]
//     right before you act, and keep what follows short.
//   - A node's clock steps forward, and exactly a quorum had granted the lock.
//   - Keys are flushed or evicted, or a replica takes a master's place.
//   - The set of masters is changed while locks are held.
//   - A master restarts empty behind a proxy that hides it, or with
//     [Config].Forgetful.
//
// # Masters that restart
//
// A master that restarted may have forgotten locks, so it takes part in none
// until every lock from before must have expired: [Config].MaxTTL, 30 s if it
// is not set. Clients record what they have watched in the key redlock:seal of
// each master, so that the next process need not wait. Masters that lose
// nothing are [Node].Durable.
//
// The seals also say which deployment a master belongs to. Open it once with
// admin.Init or the command redlock init. A client that names other masters is
// refused with [ErrDeployment], and one with another MaxTTL with [ErrMaxTTL].
//
// # What can be observed
//
// [Client.Stats] counts calls by outcome, [Client.Nodes] says how each node is,
// [Config].Logger receives changes of state and [Config].Tracer each call. With
// [Config].Owner, people see who holds a lock. Tokens and passwords are never
// printed.
//
// # How it works
//
// An attempt reads the clocks, and sends SET key token NX PX ttl to all masters
// before it reads a reply. The lock is held if ⌊N/2⌋+1 of the configured
// masters granted it within its validity: the TTL less the elapsed time, by the
// worse of two clocks, and the drift. Otherwise all masters are released, those
// that seemed not to grant it too, whatever has become of the context; Acquire
// then waits until the nodes report that the lock may be free, or for a random
// time, and tries again with another token. A release deletes the key if it
// holds our token, and an extension lengthens its life, never shortens it, and
// never creates a key.
//
// R1 to R34 in these comments are the rules of docs/internals/rules.md
// (https://github.com/redmux/redmux/blob/main/docs/internals/rules.md).
// docs/internals/design.md says how the packages work.
package redlock

// Where to find what, by the beginnings of the files' names:
//
//	client, config  a client's life, its configuration, and a missing quorum
//	prelude         what a server must pass before it gets a vote
//	locker          the calls for every kind of lock
//	acquire         one attempt and its checks
//	wait            how Acquire waits: the queue, pushes, delays
//	lock            the value that is granted: Token, Extend, Release, Adopt
//	hold            locks that renew themselves: the keeper's goroutine, Do,
//	                contexts, clocks, and how holds end
//	observe         Stats, Nodes, Logger and Tracer
//	error, redact   what is returned, and what is never shown
//	inside          what packages admin and election reach of this one
//
// internal/kind says what each kind of lock sends and what the answers mean,
// and internal/wire encodes it. A further kind needs a file in internal/kind,
// its scripts in internal/lua, and a method of Client that returns its Locker.
//
// A Client owns a multiplex.Group and with it all connections and goroutines. A
// Lock is an immutable value that owns nothing. No lock has a goroutine, a
// timer or an allocation of its own; a Hold costs a few allocations and a place
// in the keeper's schedule, a waiting caller a place in a queue.
//
// pure.Renewal decides when a hold is renewed or lost, and pure.RetryDelay how
// long a retry waits.
