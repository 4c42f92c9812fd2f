package bench

// A Node is one master, asked by some client library. Its calls wait for the
// reply and are safe for concurrent use.
type Node interface {
	// Set sends SET resource token NX PX ttl, with the TTL in milliseconds. It
	// returns false if the resource is taken, and an error if the reply is no vote (R17).
	Set(resource, token, ttl string) (bool, error)
	// Delete deletes the resource if it holds the token, by EVALSHA of
	// ReleaseScript, and returns whether it did. It sends the script itself to
	// a node that has lost it.
	Delete(resource, token string) (bool, error)
	// Close closes the node's connections.
	Close()
}
