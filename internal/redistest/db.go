package redistest

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// DB is the keys of a Node: strings with a TTL, which end by the NodeClock.
// Methods are safe for concurrent use; a script sees no other command between
// its calls, because the node executes one at a time.
type DB struct {
	clock *NodeClock

	mu   sync.Mutex // guards the following
	keys map[string]entry
	// changed, if not nil, is called for each change, with mu held. It must not
	// call the DB.
	changed func(change)
}

// note reports a change. The caller must hold db.mu.
func (db *DB) note(c change) {
	if db.changed != nil {
		db.changed(c)
	}
}

// entry is a value; the zero expires is never. A sorted set or a hash has no
// text.
type entry struct {
	value   string
	set     map[string]float64
	fields  map[string]string
	expires time.Time
}

// isText reports whether the key is neither a sorted set nor a hash.
func (db *DB) isText(key string) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	e, _ := db.living(key)
	return e.set == nil && e.fields == nil
}

// Get returns the value of a living key.
func (db *DB) Get(key string) (value string, ok bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	e, ok := db.living(key)
	return e.value, ok
}

// Set sets a key. With a ttl of 0 it never expires.
func (db *DB) Set(key, value string, ttl time.Duration) {
	db.mu.Lock()
	defer db.mu.Unlock()
	e := entry{value: value}
	if ttl > 0 {
		e.expires = db.clock.Now().Add(ttl)
	}
	db.keys[key] = e
	db.note(change{key: key})
}

// Delete reports whether the key lived.
func (db *DB) Delete(key string) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	_, ok := db.living(key)
	delete(db.keys, key)
	if ok {
		db.note(change{key: key})
	}
	return ok
}

// TTL returns what remains; 0 for a key without a TTL.
func (db *DB) TTL(key string) (ttl time.Duration, ok bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	e, ok := db.living(key)
	if !ok || e.expires.IsZero() {
		return 0, ok
	}
	return e.expires.Sub(db.clock.Now()), true
}

// Expire sets what remains and reports whether the key lives. As on a real
// server, a ttl that is not positive deletes it.
func (db *DB) Expire(key string, ttl time.Duration) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	e, ok := db.living(key)
	if !ok {
		return false
	}
	db.note(change{key: key})
	if ttl <= 0 {
		delete(db.keys, key)
		return true
	}
	e.expires = db.clock.Now().Add(ttl)
	db.keys[key] = e
	return true
}

// DeleteIf deletes the key if it holds value, as a release does (R9).
func (db *DB) DeleteIf(key, value string) bool {
	held, ok := db.Get(key)
	return ok && held == value && db.Delete(key)
}

// ExtendIf reports whether the key holds value, and if so lengthens its
// remaining time, as an extension does (R10). It never shortens it.
func (db *DB) ExtendIf(key, value string, ttl time.Duration) bool {
	if held, ok := db.Get(key); !ok || held != value {
		return false
	}
	if left, _ := db.TTL(key); left < ttl {
		db.Expire(key, ttl)
	}
	return true
}

// Keys returns the living keys, sorted.
func (db *DB) Keys() []string {
	db.mu.Lock()
	defer db.mu.Unlock()
	all := make([]string, 0, len(db.keys))
	for key := range db.keys {
		if _, ok := db.living(key); ok {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}

// flush deletes all keys, as FLUSHALL does, but for some.
func (db *DB) flush(kept ...string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	maps.DeleteFunc(db.keys, func(key string, _ entry) bool { return !slices.Contains(kept, key) })
	db.note(change{all: true})
}

// living returns a key that has not expired, and deletes one that has. The
// caller must hold db.mu.
func (db *DB) living(key string) (entry, bool) {
	e, ok := db.keys[key]
	if ok && !e.expires.IsZero() && !db.clock.Now().Before(e.expires) {
		delete(db.keys, key)
		db.note(change{key: key})
		return entry{}, false
	}
	return e, ok
}
