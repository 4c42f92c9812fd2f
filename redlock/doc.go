// Package redlock is the algorithm of the redis.io page "Distributed Locks with Redis" and nothing else: a lock that a
// quorum of N independent Redis or Valkey masters grants for a time. It knows commands, tokens, validity and when to try
// again. It knows nothing of connections, and of nodes only what package multiplex tells it: how many said yes.
//
//	lock, err := client.TryAcquire(ctx, "invoice:7", 10*time.Second)   // once
//	lock, err := client.Acquire(ctx, "invoice:7", 10*time.Second)      // until ctx ends
//	longer, err := lock.Extend(ctx, 10*time.Second)
//	err := lock.Release(ctx)
//
// # The five steps
//
//  1. Get the current time: the first line of Client.attempt, before a byte is queued.
//  2. Ask all N masters, with the same key and a random value: appendAcquire encodes SET key token NX PX ttl once, and
//     multiplex.Group.Ask sends it to all at once instead of one after the other. A vote is waited for a time that is
//     small beside the TTL.
//  3. Compute what time has passed, and hold the lock only if a majority granted it, ⌊N/2⌋+1 of the configured masters,
//     and less time has passed than it is valid for: elapsed, by the worse of two clocks. The vote that completes the
//     quorum ends the wait.
//  4. The validity is the TTL less that time, less the drift: validity and drift. [Lock.Validity] asks the clocks anew.
//  5. Otherwise unlock all masters, also those that are believed not locked: Ask queues the release for every node behind
//     the SET, whatever the caller's context says, before TryAcquire returns. [Client.Acquire] then waits until the nodes
//     tell that the lock may be had (wait.go), or for a random time (retryDelay), and begins again at 1 with another token.
//
// [Lock.Release] and the release of step 5 are release.lua: delete if it is ours; or DELEX (Redis 8.4) or DELIFEQ (Valkey
// 9.0), which do the same for less, while every node that is up has it and the user may run it. [Lock.Extend] is extend.lua:
// lengthen if it is ours; it never shortens, and creates nothing.
//
// # Holding
//
// [Client.Hold] keeps a lock until it is released: it is renewed at a third of its validity, and tried again until the end
// (pure.Renewal decides, keeper.go does, for all holds with one goroutine). Its context ends by the local clocks, a little
// before the validity does, whatever nodes and renewals are doing, with a cause that says what each node said. [Client.Do] is
// acquire, hold, run, release. What is worked under a hold must end with its context; and who was paused between a look at it
// and the act that follows is in the case of the first point of the list below.
//
//	err := client.Do(ctx, "invoice:7", 10*time.Second, func(ctx context.Context) error { … })
//
// A lock that was acquired in one process may be extended and released by another, which is handed the token and the end of
// the validity: [Client.Adopt].
//
// # What is promised
//
// At most one holder of a resource at a time within validity, as long as
//
//   - the clocks of clients and nodes run at nearly one rate, within [Config].DriftFactor, and do not step,
//   - all clients name the same masters, the same prefix and the same [Config].MaxTTL,
//   - no quorum of masters forgets its keys (see "Masters that restart"), and nobody evicts or flushes them.
//
// # What is not
//
// Nothing is promised about work done after the validity has ended, unless the protected resource itself checks a fencing
// token, and nothing about who is served first, but for the callers of Acquire in one client, who are served in turn. Two
// clients can hold one lock in these cases, which no client can see:
//
//   - A client is paused between its check and its act, by a collection, a SIGSTOP or a sleeping machine. Ask
//     [Lock.Validity] right before you act, and keep what you do after it short beside what is left.
//   - A node's clock steps forward, and the lock was granted by exactly a quorum: one key that ends early is one vote less.
//   - FLUSHALL, or an eviction policy other than noeviction. With MaxTTL a flushed master is found out, but only within five
//     seconds, and only if it had a seal.
//   - A failover to a replica, which has not got the key yet. Use masters that nothing fails over; replicas are refused.
//   - The set of masters is changed while locks are held, or differs between clients: two quorums need not meet.
//   - A master restarts empty, and [Config].MaxTTL is not set. It has forgotten its vote and gives it again.
//   - A proxy before a master hides that it restarted, or the run id may not be asked.
//
// # Masters that restart
//
// With [Config].MaxTTL this package keeps the delayed restart of the algorithm's description: a master that restarted takes
// part in no lock until every lock from before must have run out. Clients do that, each for itself. Who has watched the
// same process, told by its run id, for MaxTTL and the drift knows that it has forgotten nothing that is valid. Until then
// the master is quarantined: it gets every command, and its answers to releases count, and to extensions of keys that are
// older than the quarantine, but not its grants; NodeStatus and ErrQuarantined say for how long. What a client has watched it
// leaves in the seal, the key redlock:seal behind the prefix, so that the next process need not wait.
//
// All clients of a deployment set the same MaxTTL; the seal shows who does not, who is then refused with [ErrMaxTTL]. To
// change it, stop all clients and delete the seals; or, to a longer one, first set [Allow].OtherMaxTTL on all clients and then
// roll the longer one out.
//
// A fresh deployment makes its first clients wait for MaxTTL, unless [Config].NewDeployment says that no lock was ever asked
// for on it. That counts once, when all masters are there and none has a seal, and not for a master that restarts later. But
// if they restart empty until none carries a seal any more, all at one time or one after another within MaxTTL, nothing is left
// that could speak against it: then a declaration that is still set makes the clients forget the locks from before, so take it
// out again.
//
// Masters that lose nothing (appendonly yes, appendfsync always, no-appendfsync-on-rewrite no) need none of this: name them in
// [Config].Durable.
//
// # What can be seen of it
//
// [Client.Stats] counts calls by outcome and times to a quorum, [Client.Nodes] each node's votes, errors, connections and debts:
// atomic numbers, read by nobody else. [Config].Logger is told of changes of state only, [Config].Tracer of each call.
// [Client.Inspect] asks the nodes who holds a resource; a holder knows itself by [Token.Fingerprint].
//
// # Who owns what
//
// A [Client] owns a multiplex.Group and with it all connections and goroutines; [Client.Close] ends them. Its other fields
// are a buffer of random bytes behind a mutex, the queues of those who wait behind another, atomic numbers, the keeper, whose
// one goroutine begins with the first [Hold], and, where somebody listens for changes of state, one more goroutine with a
// bounded queue. A [Lock] is an immutable value that owns nothing and may be copied, kept and dropped: dropping it leaves the
// keys to their TTL. There is no goroutine, timer or allocation per lock; a Hold is some allocations and a place in the
// keeper's schedule, and who waits costs a place in a queue, the first of each queue a timer. Tokens and passwords are never
// printed.
package redlock
