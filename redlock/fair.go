package redlock

// Fair returns the Locker of a lock with callers served in the order of their
// coming, in all processes: a caller let into the queue by a quorum of nodes
// gets the lock before all later ones. A dead one, or one without a quorum,
// stops the others for Config.FairLease and then loses its place. TryAcquire
// and TryHold get the lock only if no caller waits.
//
// HeldError.Place says where a caller stands. Order costs throughput: each
// caller asks the nodes several times a second. The resource must be locked by
// Fair only: a plain lock on it excludes the others, but does not queue. Fair
// locks have no fencing number.
func (c *Client) Fair(name string) Locker {
	c.made()
	return Locker{client: c, kind: c.kinds.Fair(), name: name}
}
