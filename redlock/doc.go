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
//  1. Get the current time: the first line of [Client.TryAcquire], before a byte is queued.
//  2. Ask all N masters, with the same key and a random value: appendAcquire encodes SET key token NX PX ttl once, and
//     multiplex.Group.Ask sends it to all at once instead of one after the other. A vote is waited for a time that is
//     small beside the TTL.
//  3. Compute what time has passed, and hold the lock only if a majority granted it, ⌊N/2⌋+1 of the configured masters,
//     and less time has passed than it is valid for: elapsed, by the worse of two clocks. The vote that completes the
//     quorum ends the wait.
//  4. The validity is the TTL less that time, less the drift: validity and drift. [Lock.Validity] asks the clocks anew.
//  5. Otherwise unlock all masters, also those that are believed not locked: Ask queues the release for every node behind
//     the SET, whatever the caller's context says, before TryAcquire returns. [Client.Acquire] then waits for a random time
//     (retryDelay) and begins again at 1 with another token.
//
// [Lock.Release] and the release of step 5 are release.lua: delete if it is ours. [Lock.Extend] is extend.lua: lengthen if
// it is ours; it never shortens, and creates nothing.
//
// # Holding
//
// [Client.Hold] keeps a lock until it is released: it is renewed at a third of its validity, and tried again until the end
// (renewal.go decides, keeper.go does, for all holds with one goroutine). Its context ends by the local clocks, a little
// before the validity does, whatever nodes and renewals are doing, with a cause that says what each node said. [Client.Do] is
// acquire, hold, run, release. What is worked under a hold must end with its context; and who was paused between a look at it
// and the act that follows is in the case of the first point of the list below.
//
//	err := client.Do(ctx, "invoice:7", 10*time.Second, func(ctx context.Context) error { … })
//
// # What is promised
//
// At most one holder of a resource at a time within validity, as long as
//
//   - the clocks of clients and nodes run at nearly one rate, within [Config].DriftFactor, and do not step,
//   - all clients name the same masters and the same prefix,
//   - no quorum of masters forgets its keys, and nobody evicts or flushes them.
//
// # What is not
//
// Nothing is promised about work done after the validity has ended, unless the protected resource itself checks a fencing
// token, and nothing about who is served first. Two clients can hold one lock in these cases, which no client can see:
//
//   - A client is paused between its check and its act, by a collection, a SIGSTOP or a sleeping machine. Ask
//     [Lock.Validity] right before you act, and keep what you do after it short beside what is left.
//   - A node's clock steps forward, and the lock was granted by exactly a quorum: one key that ends early is one vote less.
//   - FLUSHALL, or an eviction policy other than noeviction.
//   - A failover to a replica, which has not got the key yet. Use masters that nothing fails over; replicas are refused.
//   - The set of masters is changed while locks are held, or differs between clients: two quorums need not meet.
//   - A node restarts empty. It has forgotten its vote and gives it again. This package does not keep the delayed restart
//     of the algorithm's description yet (the quarantine by a MaxTTL), so run masters with appendonly and appendfsync
//     always, or keep one that crashed away by hand for longer than the longest TTL in use.
//
// # Who owns what
//
// A [Client] owns a multiplex.Group and with it all connections and goroutines; [Client.Close] ends them. Its other fields
// are a buffer of random bytes, behind a mutex, and one atomic number. A [Lock] is an immutable value that owns nothing
// and may be copied, kept and dropped: dropping it leaves the keys to their TTL. There is no goroutine, timer or
// allocation per lock. A [Hold] is an entry in the client's schedule until it is released; it has no goroutine or timer either. Tokens and passwords are never printed.
package redlock
