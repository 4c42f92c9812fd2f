package redlock

// Fair returns the Locker of a lock whose callers are served in the order in
// which they came, in all processes: a caller that a quorum of nodes has let
// into the queue gets the lock before each that asks later. One that has died,
// or reaches no quorum, stops the others for Config.FairLease and then loses
// its place. TryAcquire and TryHold get the lock only if no caller waits.
//
// HeldError.Place says where a caller stands. Order costs throughput: each
// caller asks the nodes several times a second. The resource must be locked by
// Fair only: a plain lock on it excludes the others, but does not queue. Fair
// locks have no fencing number.
func (c *Client) Fair(name string) Locker {
	c.made()
	return Locker{client: c, kind: c.kinds.Fair(), name: name}
}
