package redistest

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redmux/redmux/resp"
)

// Sorted sets, as far as the scripts use them.

// ranked is a member of a sorted set.
type ranked struct {
	member string
	score  float64
}

// sorted returns the members of a set by score. ok is false if the key is
// another thing.
func (db *DB) sorted(key string) (all []ranked, ok bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	e, there := db.living(key)
	if there && e.set == nil {
		return nil, false
	}
	for member, score := range e.set {
		all = append(all, ranked{member, score})
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.member, b.member))
	})
	return all, true
}

// Rank adds a member to a sorted set, or changes its score, as ZADD does.
func (db *DB) Rank(key, member string, score float64) { db.rank(key, member, score, false) }

// rank is Rank. With old, it adds no member, but changes the score of one. It
// reports whether the member is new.
func (db *DB) rank(key, member string, score float64, old bool) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	e, there := db.living(key)
	if !there {
		e = entry{set: make(map[string]float64)}
	}
	_, in := e.set[member]
	if old && !in {
		return false
	}
	e.set[member] = score
	db.keys[key] = e
	db.note(change{key: key})
	return !in
}

// unrank removes the members that a test names, and a set that becomes empty. It
// returns how many there were.
func (db *DB) unrank(key string, gone func(member string, score float64) bool) int {
	db.mu.Lock()
	defer db.mu.Unlock()
	e, _ := db.living(key)
	before := len(e.set)
	maps.DeleteFunc(e.set, gone)
	if len(e.set) == before {
		return 0
	}
	if len(e.set) == 0 {
		delete(db.keys, key)
	}
	db.note(change{key: key})
	return before - len(e.set)
}

func wrongType() []byte {
	return fail("WRONGTYPE Operation against a key holding the wrong kind of value")
}

// zadd is ZADD key [XX] score member.
func (c *call) zadd() []byte {
	rest := c.args[1:]
	old := strings.EqualFold(rest[0], "XX")
	if old {
		rest = rest[1:]
	}
	if len(rest) != 2 {
		return fail("ERR syntax error")
	}
	score, err := strconv.ParseFloat(rest[0], 64)
	if err != nil || math.IsNaN(score) {
		return fail("ERR value is not a valid float")
	}
	if _, ok := c.db.sorted(c.args[0]); !ok {
		return wrongType()
	}
	return boolean(c.db.rank(c.args[0], rest[1], score, old))
}

// zrange is ZRANGE key start stop [WITHSCORES], by rank.
func (c *call) zrange() []byte {
	all, ok := c.db.sorted(c.args[0])
	if !ok {
		return wrongType()
	}
	from, errFrom := strconv.Atoi(c.args[1])
	to, errTo := strconv.Atoi(c.args[2])
	if errFrom != nil || errTo != nil {
		return fail("ERR value is not an integer or out of range")
	}
	if from < 0 {
		from = max(0, from+len(all))
	}
	if to < 0 {
		to += len(all)
	}
	to = min(to, len(all)-1)
	if from > to {
		return resp.AppendArray(nil, 0)
	}
	var said []string
	for _, r := range all[from : to+1] {
		said = append(said, r.member)
		if len(c.args) > 3 {
			said = append(said, decimal(r.score))
		}
	}
	return bulks(resp.AppendArray(nil, len(said)), said...)
}

// zrank is ZRANK key member.
func (c *call) zrank() []byte { return c.ranked(func(i int, _ ranked) []byte { return integer(i) }) }

// zscore is ZSCORE key member.
func (c *call) zscore() []byte {
	return c.ranked(func(_ int, r ranked) []byte { return resp.AppendBulkString(nil, decimal(r.score)) })
}

// ranked replies with something of a member, or with null.
func (c *call) ranked(reply func(i int, r ranked) []byte) []byte {
	all, ok := c.db.sorted(c.args[0])
	if !ok {
		return wrongType()
	}
	i := slices.IndexFunc(all, func(r ranked) bool { return r.member == c.args[1] })
	if i < 0 {
		return c.null()
	}
	return reply(i, all[i])
}

// zcard is ZCARD key.
func (c *call) zcard() []byte {
	all, ok := c.db.sorted(c.args[0])
	if !ok {
		return wrongType()
	}
	return integer(len(all))
}

// zrem is ZREM key member….
func (c *call) zrem() []byte {
	return c.unrank(func(member string, _ float64) bool { return slices.Contains(c.args[1:], member) })
}

// zremrangebyscore is ZREMRANGEBYSCORE key -inf max.
func (c *call) zremrangebyscore() []byte {
	most, err := strconv.ParseFloat(c.args[2], 64)
	if err != nil || c.args[1] != "-inf" {
		return fail("ERR min or max is not a float")
	}
	return c.unrank(func(_ string, score float64) bool { return score <= most })
}

func (c *call) unrank(gone func(member string, score float64) bool) []byte {
	if _, ok := c.db.sorted(c.args[0]); !ok {
		return wrongType()
	}
	return integer(c.db.unrank(c.args[0], gone))
}
