package redistest

import (
	"maps"
	"slices"

	"github.com/redmux/redmux/resp"
)

// Hashes, as far as the scripts use them.

// Fields returns a copy of a hash. ok is false if the key is something else.
func (db *DB) Fields(key string) (all map[string]string, ok bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	e, there := db.living(key)
	return maps.Clone(e.fields), !there || e.fields != nil
}

// SetField sets a field of a hash, as HSET does, and reports whether it is new.
// The key must be a hash, or free.
func (db *DB) SetField(key, field, value string) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	e, there := db.living(key)
	if !there {
		e = entry{fields: make(map[string]string)}
	}
	_, in := e.fields[field]
	e.fields[field] = value
	db.keys[key] = e
	db.note(change{key: key})
	return !in
}

// DeleteField removes a field, and a hash that becomes empty, as HDEL does. It
// reports whether there was one.
func (db *DB) DeleteField(key, field string) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	e, _ := db.living(key)
	if _, in := e.fields[field]; !in {
		return false
	}
	delete(e.fields, field)
	if len(e.fields) == 0 {
		delete(db.keys, key)
	}
	db.note(change{key: key})
	return true
}

// hset is HSET key field value….
func (c *call) hset() []byte {
	if len(c.args)%2 == 0 {
		return wrongNumber("hset")
	}
	return c.eachField(2, func(pair []string) bool { return c.db.SetField(c.args[0], pair[0], pair[1]) })
}

// hdel is HDEL key field….
func (c *call) hdel() []byte {
	return c.eachField(1, func(field []string) bool { return c.db.DeleteField(c.args[0], field[0]) })
}

// eachField does something for each few of the arguments, and replies with how
// often that returned true.
func (c *call) eachField(few int, do func([]string) bool) []byte {
	if _, ok := c.db.Fields(c.args[0]); !ok {
		return wrongType()
	}
	n := 0
	for some := range slices.Chunk(c.args[1:], few) {
		if do(some) {
			n++
		}
	}
	return integer(n)
}

// hmget is HMGET key field….
func (c *call) hmget() []byte {
	all, ok := c.db.Fields(c.args[0])
	if !ok {
		return wrongType()
	}
	b := resp.AppendArray(nil, len(c.args)-1)
	for _, field := range c.args[1:] {
		if value, in := all[field]; in {
			b = resp.AppendBulkString(b, value)
		} else {
			b = append(b, c.null()...)
		}
	}
	return b
}

// hgetall is HGETALL key, for scripts: they speak RESP2.
func (c *call) hgetall() []byte {
	all, ok := c.db.Fields(c.args[0])
	if !ok {
		return wrongType()
	}
	b := resp.AppendArray(nil, 2*len(all))
	for _, field := range slices.Sorted(maps.Keys(all)) {
		b = bulks(b, field, all[field])
	}
	return b
}

// hlen is HLEN key.
func (c *call) hlen() []byte {
	all, ok := c.db.Fields(c.args[0])
	if !ok {
		return wrongType()
	}
	return integer(len(all))
}
