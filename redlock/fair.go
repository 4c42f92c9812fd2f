package redlock

// Fair returns the Locker of a lock whose callers are served in the order in
// which they came, in all processes: a caller that a quorum of nodes has let
// into the queue gets the lock before each that asks later. A caller leaves the
// queue when its context ends; one that has died loses its place when its lease
// ends (Config.FairLease), half a second later, and stops the others until
// then. So does one that reaches no quorum for that time: others overtake it,
// though its place was confirmed. One that has always been too far from a
// quorum for its TTL goes to the end of the queue each time. TryAcquire and
// TryHold get the lock only if no caller waits, and take no place.
//
// While it waits, each caller asks the nodes several times a second, and when
// the one before it has gone. HeldError.Place says where it stands: the last
// attempt's error is a part of the CancelledError, and Tracer.AttemptDone gets
// each. Order costs throughput: use it where waiting for too long is worse.
//
// The resource must be locked by Fair only: a plain lock on it excludes the
// others, but does not queue. Fair locks have no fencing number: the ticket is
// none.
func (c *Client) Fair(name string) Locker {
	c.made()
	return Locker{client: c, kind: c.kinds.Fair(), name: name}
}
