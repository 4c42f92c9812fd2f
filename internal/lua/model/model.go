// Package model implements the Lua programs of package lua in Go. Nodes in
// memory (internal/redistest) and the simulated servers
// (proof/sim/machines) run no Lua and call this instead. TestScripts
// of package redlocktest compares it with real servers.
package model

import (
	"slices"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// Keys are the keys of one server, by name, with their values. No other command
// is executed between two calls of one script.
type Keys[K, V comparable] interface {
	Get(key K) (value V, ok bool)
	Set(key K, value V, ttl time.Duration)
	Delete(key K) bool
	// TTL returns what remains of a key. It is 0 for a key without a TTL.
	TTL(key K) (ttl time.Duration, ok bool)
	Expire(key K, ttl time.Duration) bool
}

// Release does what release.lua does.
func Release[K, V comparable](db Keys[K, V], key K, token V) int {
	if !holds(db, key, token) || !db.Delete(key) {
		return 0
	}
	return 1
}

// Extend does what extend.lua does: it lengthens, and never shortens (R10). A
// key without a TTL gets the other one.
func Extend[K, V comparable](db Keys[K, V], key K, token V, ttl, other time.Duration) int {
	if !holds(db, key, token) {
		return 0
	}
	switch left, _ := db.TTL(key); {
	case left == 0:
		db.Expire(key, other)
	case left < ttl:
		db.Expire(key, ttl)
	}
	return 1
}

// Heal does what heal.lua does: it extends a key, or sets a missing one again.
func Heal[K, V comparable](db Keys[K, V], key K, token V, ttl, other time.Duration) int {
	if _, there := db.Get(key); there {
		return Extend(db, key, token, ttl, other)
	}
	db.Set(key, token, ttl)
	return 2
}

// Shorten does what shorten.lua does: it is a release that keeps the key for a
// while.
func Shorten[K, V comparable](db Keys[K, V], key K, token V, ttl time.Duration) int {
	if !holds(db, key, token) {
		return 0
	}
	if left, _ := db.TTL(key); left == 0 || left > ttl {
		db.Expire(key, ttl)
	}
	return 1
}

// AcquireAll is acquire_all.lua. It returns -i if the i-th key is in the way.
func AcquireAll[K, V comparable](db Keys[K, V], keys []K, token V, ttl time.Duration) int {
	for i, key := range keys {
		if _, there := db.Get(key); there {
			return -(i + 1)
		}
	}
	for _, key := range keys {
		db.Set(key, token, ttl)
	}
	return 1
}

// ReleaseAll is release_all.lua: it deletes the keys that have the token.
func ReleaseAll[K, V comparable](db Keys[K, V], keys []K, token V) int {
	all := 1
	for _, key := range keys {
		if Release(db, key, token) == 0 {
			all = 0
		}
	}
	return all
}

// ExtendAll is extend_all.lua: it lengthens all, or none.
func ExtendAll[K, V comparable](db Keys[K, V], keys []K, token V, ttl, other time.Duration) int {
	for _, key := range keys {
		if !holds(db, key, token) {
			return 0
		}
	}
	for _, key := range keys {
		Extend(db, key, token, ttl, other)
	}
	return 1
}

// A Mark is the values of the two keys in which a node says which deployment it
// belongs to.
type Mark struct {
	Seal    pure.Seal // zero: none
	Opening pure.Opening
}

// A Change is the arguments of seal.lua.
type Change struct {
	Verb     pure.Verb // Propose, Lock, Confirm, Adopt or Undo
	Identity pure.Identity
	Replaces []string  // for Propose: ids that count as absent
	Seal     pure.Seal // for Confirm and Adopt
}

// Seal does what seal.lua does. It returns what is there afterwards, and
// whether the change was made, now or before (R23, R30). The caller must let a
// proposal expire.
func Seal(m Mark, c Change) (Mark, bool) {
	none := pure.Identity{}
	owner, opener := m.Seal.Identity, m.Opening.Identity
	own := m.Opening.Stage != pure.NoOpening && opener == c.Identity
	passes := func(who pure.Identity) bool { return who == none || slices.Contains(c.Replaces, who.ID) }
	switch c.Verb {
	case pure.Propose:
		if !(own && m.Opening.Stage == pure.Proposed) && (!passes(owner) || !passes(opener)) {
			return m, false
		}
		m.Opening = pure.Opening{Stage: pure.Proposed, Identity: c.Identity}
		return m, true
	case pure.Lock, pure.Undo:
		if !own {
			return m, false
		}
		m.Opening = pure.Opening{}
		if c.Verb == pure.Lock {
			m.Opening = pure.Opening{Stage: pure.Locked, Identity: c.Identity}
		}
		return m, true
	}
	locked := own && m.Opening.Stage == pure.Locked
	free := owner == none && m.Opening.Stage == pure.NoOpening
	if !locked && owner != c.Identity && !(free && c.Verb == pure.Adopt) {
		return m, false
	}
	after := c.Seal
	if owner == none || owner == c.Identity {
		after = after.Over(m.Seal)
	}
	m.Seal = after
	if locked {
		m.Opening = pure.Opening{}
	}
	return m, true
}

// holds reports whether a key has the token.
func holds[K, V comparable](db Keys[K, V], key K, token V) bool {
	value, ok := db.Get(key)
	return ok && value == token
}
