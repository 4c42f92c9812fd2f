// Package model has in Go what the Lua programs of package lua do. Nodes in
// memory (internal/redistest) and the simulated servers
// (internal/proof/sim/machines) run no Lua and call this instead. What it does
// is compared with real servers by TestScripts of package redlocktest.
package model

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// Keys are the keys of one server, by name, with their values. No other command
// is executed between two calls of one script.
type Keys[K, V comparable] interface {
	Get(key K) (value V, ok bool)
	Set(key K, value V, ttl time.Duration)
	Delete(key K) bool
	// TTL returns what remains; 0 for a key without a TTL.
	TTL(key K) (ttl time.Duration, ok bool)
	Expire(key K, ttl time.Duration) bool
}

// Release is release.lua.
func Release[K, V comparable](db Keys[K, V], key K, token V) int {
	if !holds(db, key, token) || !db.Delete(key) {
		return 0
	}
	return 1
}

// Extend is extend.lua: it lengthens, and never shortens (R10).
func Extend[K, V comparable](db Keys[K, V], key K, token V, ttl time.Duration) int {
	if !holds(db, key, token) {
		return 0
	}
	if left, _ := db.TTL(key); left > 0 && left < ttl {
		db.Expire(key, ttl)
	}
	return 1
}

// Heal is heal.lua: it extends, or sets again what is missing.
func Heal[K, V comparable](db Keys[K, V], key K, token V, ttl time.Duration) int {
	if _, there := db.Get(key); there {
		return Extend(db, key, token, ttl)
	}
	db.Set(key, token, ttl)
	return 2
}

// Shorten is shorten.lua: a release that lets the key stand for a while.
func Shorten[K, V comparable](db Keys[K, V], key K, token V, ttl time.Duration) int {
	if !holds(db, key, token) {
		return 0
	}
	if left, _ := db.TTL(key); left == 0 || left > ttl {
		db.Expire(key, ttl)
	}
	return 1
}

// Seal is seal.lua: it returns the seal that is there after one was written
// over another. Nothing is lowered, but the time watched is of one process
// (R23).
func Seal(old, written pure.Seal) pure.Seal {
	written.MaxTTL = max(written.MaxTTL, old.MaxTTL)
	if written.Run == old.Run {
		written.Watched = max(written.Watched, old.Watched)
	}
	return written
}

// holds reports whether a key has the token.
func holds[K, V comparable](db Keys[K, V], key K, token V) bool {
	value, ok := db.Get(key)
	return ok && value == token
}
