// Package redlock provides distributed locks by the algorithm of the redis.io
// page "Distributed Locks with Redis": a lock is granted for a time by a quorum
// of N independent Redis or Valkey masters. The package contains the algorithm,
// locks that renew themselves, waiting for a lock, and what can be observed of
// all that. Package multiplex sends its commands to the nodes and counts the
// votes; package conn supplies URLs, handshake steps and classes of errors.
//
// R1 to R34 in these comments are the rules of docs/internals/rules.md
// (https://github.com/redmux/redmux/blob/main/docs/internals/rules.md).
//
//	lock, err := client.TryAcquire(ctx, "invoice:7", ttl) // once
//	lock, err := client.Acquire(ctx, "invoice:7", ttl)    // until ctx ends
//	longer, err := lock.Extend(ctx, ttl)
//	err := lock.Release(ctx)
//
// # The five steps
//
//  1. Get the current time: Client.attempt does so before it queues a byte.
//  2. Ask all N masters with the same key and a random value: appendAcquire
//     encodes SET key token NX PX ttl once, and multiplex.Group.Claim sends it
//     to all masters at once instead of one after the other. The wait for a
//     vote is short compared with the TTL.
//  3. Compute the elapsed time, by the worse of two clocks. The lock is held
//     only if a majority granted it, ⌊N/2⌋+1 of the configured masters, within
//     its validity. The vote that completes the quorum ends the wait.
//  4. The validity is the TTL less the elapsed time and the drift.
//     [Lock.Validity] reads the clocks again.
//  5. Otherwise release all masters, including those that seem not to hold the
//     key: Claim queues the release for every node behind the SET, whatever the
//     caller's context, before TryAcquire returns. [Client.Acquire] then waits
//     until the nodes report that the lock may be free, or for a random time,
//     and starts again at step 1 with another token.
//
// [Lock.Release] and the release of step 5 run internal/lua/release.lua: delete
// the key if it holds our token. While every node that is up supports it and
// the user may run it, DELEX (Redis 8.4, Valkey 9.2) or DELIFEQ (Valkey 9.0)
// does the same for less. [Lock.Extend] runs extend.lua: lengthen if the key
// holds our token. It never shortens and never creates a key.
//
// # Holding
//
// [Client.Hold] keeps a lock until it is released: the lock is renewed at a
// third of its validity, and a renewal that fails is retried until the validity
// ends. One goroutine renews all holds. The context of a hold ends by the local
// clocks, shortly before the validity does, whatever the nodes and renewals are
// doing; its cause says what each node answered. [Client.Do] acquires, holds,
// runs a function and releases. Work under a hold must stop when its context
// ends. A pause between the check and the act is the first case of the list
// below.
//
//	err := client.Do(ctx, "invoice:7", 10*time.Second,
//		func(ctx context.Context) error { … })
//
// A lock can be handed to another process, which extends and releases it: see
// [Client.Adopt].
//
// # Several resources
//
// A lock can be on several resources: on all of them, or none.
//
//	lock, err := client.All("account:1", "account:2").Acquire(ctx, ttl)
//
// It excludes plain locks on each of them. One script for each node sets the
// keys of all, or none. While a caller waits it holds nothing, so the order of the names does not matter, and callers cannot
// wait for each other in a circle. A caller that wants many resources has no
// precedence over those that take one of them again and again.
//
// # Readers and writers
//
// An [RWLock] is held by any number of readers, or by one writer. A node has
// the writer's key and the readers with the ends of their times, and grants one
// only without the other; two quorums share a node.
//
//	lock, err := client.RW("prices").Read().Acquire(ctx, ttl)
//
// # A few at a time, and in order
//
// Each permit of [Client.Semaphore] is a lock of its own. Callers of
// [Client.Fair] have a ticket, by which the nodes serve them in order. All are
// used by a [Locker], as a plain lock is ([Client.Lock]).
//
//	lock, err := client.Semaphore("workers", 8).Acquire(ctx, ttl)
//	lock, err := client.Fair("printer").Acquire(ctx, ttl)
//
// # Electing a leader
//
// An [Election] is a hold with a function: [Election.Run] campaigns, calls the
// function while this process leads, releases the lock when it has returned,
// and campaigns again. The term is the lock's fencing number. [Election.Leader]
// and [Election.Watch] say who leads.
//
//	err := client.Election("billing", redlock.ElectionOptions{}).Run(ctx,
//		func(ctx context.Context, term uint64) error { … })
//
// # What is promised
//
// At most one client holds a resource at a time within validity, provided that
//
//   - the clocks of clients and nodes run at nearly the same rate, within
//     [Config].DriftFactor, and do not step,
//   - all clients name the same masters, the same prefix and the same
//     [Config].MaxTTL,
//   - no master loses a key before its time. A master that restarts empty does
//     no harm (see "Masters that restart"). Eviction and FLUSHALL may do harm:
//     a lock that exactly a quorum granted is lost with one key.
//
// # What is not
//
// Nothing is promised about work done after the validity has ended, unless the
// protected resource itself compares a fencing number. Nothing is promised
// about the order in which clients get a lock, except by [Client.Fair], and
// that callers of Acquire in one client are served in turn. Two clients can
// hold one lock in these cases, which no client can prevent:
//
//   - A client is paused between its check and its act, by a garbage
//     collection, a SIGSTOP or a sleeping machine. Read [Lock.Validity] right
//     before you act, and keep what follows short compared with what is left.
//   - A node's clock steps forward, and the lock was granted by exactly a
//     quorum: one key that ends early is one vote less.
//   - FLUSHALL, or an eviction policy other than noeviction. A flushed master
//     is detected, but only within five seconds, and only if it had a seal.
//   - A failover to a replica that has not received the key yet. Use masters
//     without failover; replicas are refused.
//   - The set of masters is changed while locks are held: two quorums need not
//     overlap. Clients that name different sets are refused once the masters
//     have seals.
//   - A master restarts empty, and [Config].Forgetful is set. It has forgotten
//     its vote and grants it again.
//   - A proxy in front of a master hides that it restarted.
//
// # Fencing
//
// With [Config].Fenced, each lock has a number, [Lock.Fence], that is higher
// than that of every lock for the resource before it. A protected resource that
// refuses writes with a lower number than it has seen is safe from a holder
// that was paused past its validity. docs/fencing.md says how to compare, why
// the numbers rise whatever clocks do, and what to do when too many masters
// lose their memory at a time ([ResetFence]).
//
//	client, err := redlock.New(ctx, redlock.Config{Nodes: nodes, Fenced: true})
//	lock, err := client.Acquire(ctx, "invoice:7", ttl)
//	err = save(ctx, invoice, lock.Fence())
//
// # Masters that restart
//
// This package implements the delayed restart of the algorithm's description: a
// master that restarted takes part in no lock until every lock from before the
// restart must have expired. [Config].MaxTTL bounds how long that takes: it is
// the longest TTL of any client, 30 s if it is not set. Holds are renewed, so
// few programs need a longer one. [Config].Forgetful switches all of this off.
//
// Each client enforces the delay for itself. A client that has watched the same
// process, identified by its run id, for MaxTTL and the drift knows that it has
// forgotten no valid lock. Until then the master is quarantined: it receives
// every command, and its answers to releases count, as do its extensions of
// keys that are older than the quarantine, but its grants do not. NodeStatus
// and ErrQuarantined say for how long. A client records what it has watched in
// the seal, the key redlock:seal behind the prefix, so that the next process
// need not wait.
//
// Masters that lose nothing (appendonly yes, appendfsync always,
// no-appendfsync-on-rewrite no) need not wait after a restart: set
// [Node].Durable.
//
// # Deployments
//
// The seals also say which deployment a master belongs to: a random id, the
// number of masters, and MaxTTL. An operator opens it once, before the first
// client, with [Init] or the command redlock init:
//
//	d, err := redlock.Init(ctx, redlock.Config{Nodes: redlock.Nodes(urls...)})
//
// Otherwise the first client opens it, which needs all masters at one time.
// They count at once if all of them have run for longer than MaxTTL.
//
// A client that names other masters, or another number of them, is refused with
// [ErrDeployment], even if only one master shows the difference: its quorums
// need not meet those of other clients. A client with another MaxTTL is refused
// with [ErrMaxTTL]. Another prefix is another deployment. To use the masters
// for another set, or to change MaxTTL, stop all clients and give the old id to
// Init. To lengthen MaxTTL without a stop, first set [Allow].OtherMaxTTL on all
// clients and then roll out the longer one.
//
// # What can be observed
//
// [Client.Stats] counts calls by outcome and times to a quorum, and
// [Client.Nodes] each node's votes, errors, connections and debts.
// [Config].Logger receives changes of state only, [Config].Tracer each call.
// [Client.Inspect] asks the nodes which client holds a resource; a holder
// recognises itself by [Token.Fingerprint]. With [Config].Owner, a label of the
// client, Inspect and [HeldError] name the holder to people.
//
// # Ownership
//
// A [Client] owns a multiplex.Group and with it all connections and goroutines;
// [Client.Close] ends them. It also owns a buffer of random bytes, the queues
// of waiting callers, counters, the keeper, whose one goroutine starts with the
// first [Hold], and one goroutine with a bounded queue that starts when there
// is something to report to Logger or Tracer. A [Lock] is an immutable value
// that owns nothing and may be copied, kept and dropped; the keys of a dropped
// lock live until their TTL ends. No lock has a goroutine, a timer or an
// allocation of its own. A Hold costs a few allocations and a place in the
// keeper's schedule; a waiting caller costs a place in a queue, and the first
// of each queue a timer. Tokens and passwords are never printed.
package redlock

// Where to find what, by the beginnings of the files' names:
//
//	client, config  a client's life and its configuration
//	deployment      Init
//	acquire         one attempt, which is the five steps, and its checks
//	fence           attempts with a fencing number, and ResetFence
//	form            what a lock is beyond one key, and where each kind of lock
//	                plugs in: all (several resources), rw, semaphore, fair
//	locker          the calls for the last three
//	wait            how Acquire waits: the queue, pushes, delays, warnings
//	lock            the value that is granted: Extend, Release, Adopt
//	hold            locks that renew themselves: the keeper's goroutine, Do,
//	                contexts, clocks, and how holds end
//	election        a hold with a function that leads, and who leads
//	command         what is sent: kinds and what their replies mean, encoders,
//	                scripts, and what the handshake tries
//	observe         Stats, Nodes, Inspect, Logger and Tracer
//	token, error    and held, redact: what is returned, and what is never shown
//
// A further kind of lock needs
//
//	a file of its own     its calls, and how its commands are encoded: as in
//	                      fair.go
//	command_kind.go       what their replies mean, if that is not lockerKind's
//	form.go               a formKind, and a case in each switch over them
//	acquire.go            a case in Client.attempt, for more than one round
//	held.go               what is kept of the texts of its refusals
//	internal/lua          its scripts, and a line for each in command_script.go
//	observe_participant   what Inspect and "redlock status" show of it
//	proof                 the workers and the referee of sim, faults, histories
//
// and the rights and keys of its scripts in docs/deploy.md. Package multiplex
// does not change.
//
// pure.Renewal decides when a hold is renewed or lost, and pure.RetryDelay how
// long a retry waits.
