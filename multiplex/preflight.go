package multiplex

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redmux/redmux/conn"
)

// Causes of a node's missing vote that a PreflightError explains, besides ErrNotMaster and ErrSameNode.
var (
	// ErrMaxTTL refuses a node whose seal was written with another MaxTTL (R23).
	ErrMaxTTL = errors.New("multiplex: this deployment was used with another MaxTTL")
	// ErrPermissions refuses a node that does not let this user do what locks need (R22).
	ErrPermissions = errors.New("multiplex: what locks need is forbidden")
)

// Allow overrides, one by one, the checks that a server must pass to get a vote (R22). The zero value allows nothing.
type Allow struct {
	// SameServer lets two addresses of one server be two votes: for tests only, and in two databases of it, since in one
	// the second address finds the key there that the first has set. One server that fails is then two votes lost.
	SameServer bool
	// Replica takes a server that says it is a replica.
	Replica bool
	// Cluster takes a server in cluster mode, whose keys may move away.
	Cluster bool
	// Sentinel takes a sentinel.
	Sentinel bool
	// Eviction keeps silent about a server that may evict keys. It is not refused without it either.
	Eviction bool
	// OtherMaxTTL takes a node whose seal was written with another MaxTTL; the longer one is then reckoned with on all
	// nodes, and written into their seals (R23).
	OtherMaxTTL bool
}

// A PreflightError is why a server that answers is given no vote: what was looked at, what was found, and what to change.
// It unwraps to ErrNotMaster, ErrSameNode, ErrMaxTTL or ErrPermissions. No key, token or password is in it (R27).
type PreflightError struct {
	Check  string // "role", "mode", "same server", "MaxTTL", "permissions"
	Found  string
	Advice string
	Err    error
}

// Error has the finding and what to change, for who starts the service and reads nothing else.
func (e *PreflightError) Error() string {
	return fmt.Sprintf("%v: %s (%s)", e.Err, e.Found, e.Advice)
}

// Unwrap gives the sentinel.
func (e *PreflightError) Unwrap() error { return e.Err }

// check refuses a server whose promises are not its own to keep (R22). What may not be asked is not held against it.
func (a *Allow) check(s *conn.Server) error {
	switch {
	case s.Mode == "cluster" && !a.Cluster:
		return &PreflightError{"mode", "the server is in cluster mode",
			"name a server that is on its own, with cluster-enabled no; Allow.Cluster overrides this", ErrNotMaster}
	case s.Mode == "sentinel" && !a.Sentinel:
		return &PreflightError{"mode", "the server is a sentinel",
			"name the address of a master, not of what watches it; Allow.Sentinel overrides this", ErrNotMaster}
	case s.Role != "" && s.Role != "master" && s.Role != "primary" && s.Role != "sentinel" && !a.Replica:
		return &PreflightError{"role", "the server says that its role is " + s.Role,
			"name a master that nothing fails over, or run REPLICAOF NO ONE there; Allow.Replica overrides this", ErrNotMaster}
	}
	return nil
}

// sameServer refuses a server that has a vote already.
func sameServer(other string) error {
	return &PreflightError{"same server", "the run id is that of the server at " + other,
		"name each server once: N votes need N servers; Allow.SameServer overrides this", ErrSameNode}
}

// otherMaxTTL refuses a node whose seal tells of another MaxTTL (R23).
func otherMaxTTL(found, ours time.Duration) error {
	return &PreflightError{"MaxTTL", fmt.Sprintf("its seal says %v, this client %v", found, ours),
		"all clients of a deployment must set the same; to change it, stop all of them first and delete the seals, or set " +
			"Allow.OtherMaxTTL on all of them while the longer one is rolled out", ErrMaxTTL}
}

// What is warned about, besides what Config.Remarks says.
const (
	warnNotDurable = "declared durable, but says that appendonly is off: a restart loses its keys (set appendonly yes and " +
		"appendfsync always)"
	warnNoRunID = "its run id may not be asked, so each reconnect begins a quarantine (allow INFO)"
)

// warningsOf is what is remarkable about a server that is not refused (R22).
func (g *Group) warningsOf(s *conn.Server) []string {
	var all []string
	if p := s.EvictionPolicy; p != "" && p != "noeviction" && !g.config.Allow.Eviction {
		all = append(all, "may evict the keys of locks: maxmemory-policy is "+p+" (set noeviction)")
	}
	if g.config.Remarks != nil {
		all = append(all, g.config.Remarks(s)...)
	}
	return slices.Clip(all)
}
