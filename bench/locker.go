package bench

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/redmux/redmux/redlock"
)

// Lease is a granted lock. Both redlock.Lock and [RueidisLease] are plain
// values with these methods.
type Lease interface {
	// Release releases the lock on every node. It returns nil,
	// redlock.ErrNotHeld or redlock.ErrNoQuorum (R9).
	Release(ctx context.Context) error
	// Until returns the end of the validity.
	Until() time.Time
	// Token returns the token that identifies this grant on the nodes.
	Token() redlock.Token
}

// Locker acquires locks of one kind. Its errors satisfy errors.Is for the
// sentinels of package redlock (R12).
type Locker[L Lease] interface {
	// TryAcquire makes one attempt.
	TryAcquire(ctx context.Context, resource string, ttl time.Duration) (L, error)
	// Acquire retries until the context ends.
	Acquire(ctx context.Context, resource string, ttl time.Duration) (L, error)
	// Close waits for releases in flight, until the context ends.
	Close(ctx context.Context) error
}

var (
	_ Locker[redlock.Lock] = (*redlock.Client)(nil)
	_ Locker[RueidisLease] = (*Rueidis)(nil)
)

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

// ReleaseScript is what every peer releases with: a compare-and-delete (R9).
const ReleaseScript = `if redis.call("GET",KEYS[1])==ARGV[1] then return redis.call("DEL",KEYS[1]) else return 0 end`

// ReleaseSHA is what EVALSHA calls it.
var ReleaseSHA = func() string {
	sum := sha1.Sum([]byte(ReleaseScript))
	return hex.EncodeToString(sum[:])
}()

// Variants are the names of the baselines, in the order in which they are
// usually shown: return at the quorum, wait for all nodes, and the best tuning
// found.
var Variants = []string{"rueidis", "rueidis-all", "rueidis-tuned"}

// Variant applies the options of the named baseline.
func (cfg RueidisConfig) Variant(name string) (RueidisConfig, error) {
	switch name {
	case "rueidis":
	case "rueidis-all":
		cfg.WaitAll = true
	case "rueidis-tuned":
		cfg.Tune = RueidisTuned
	default:
		return cfg, fmt.Errorf("bench: no baseline is called %q", name)
	}
	return cfg, nil
}
