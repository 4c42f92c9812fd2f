package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/lua/model"
	"github.com/redmux/redmux/internal/pure"
)

// Teach registers what the scripts of package redlock do. They must still be
// loaded, as on a real server.
func (n *Node) Teach() {
	n.Script(lua.Release, Release)
	n.Script(lua.ReleaseMany, Each(1, Release))
	n.Script(lua.Extend, Extend)
	n.Script(lua.ExtendMany, Each(3, Extend))
	n.Script(lua.Heal, extending(model.Heal[string, string]))
	n.Script(lua.Shorten, timed(model.Shorten[string, string]))
	n.Script(lua.AcquireAll, acquireAll)
	n.Script(lua.ExtendAll, func(keys, args []string, db *DB) any {
		return extending(func(db model.Keys[string, string], _, token string, ttl, other time.Duration) int {
			return model.ExtendAll(db, keys, token, ttl, other)
		})(keys, args, db)
	})
	n.Script(lua.ReleaseAll, func(keys, args []string, db *DB) any { return model.ReleaseAll(db, keys, args[0]) })
	n.Script(lua.Look, look)
	n.Script(lua.Seal, WriteSeal)
	n.Script(lua.AcquireFenced, acquireFenced)
	n.Script(lua.Floor, writeFloor)
	n.teachRW()
	n.teachPermits()
	n.teachFair()
	n.teachLooks()
}

// Release is what release.lua does: KEYS[1] and its token.
func Release(keys, args []string, db *DB) any { return model.Release(db, keys[0], args[0]) }

// Extend is what extend.lua does: KEYS[1], its token, the TTL in milliseconds,
// and the one for a key that has none.
func Extend(keys, args []string, db *DB) any {
	return extending(model.Extend[string, string])(keys, args, db)
}

// extending is timed for a script that is also given a TTL for keys that have
// none. If that is missing, it is the other one.
func extending(do func(db model.Keys[string, string], key, token string, ttl, other time.Duration) int) Script {
	return func(keys, args []string, db *DB) any {
		other := args[1]
		if len(args) > 2 {
			other = args[2]
		}
		left, err := milliseconds(other)
		if err != nil {
			return err
		}
		return timed(func(db model.Keys[string, string], key, token string, ttl time.Duration) int {
			return do(db, key, token, ttl, left)
		})(keys, args, db)
	}
}

// acquireAll is what acquire_all.lua does: the keys, their token, and the TTL
// in milliseconds.
func acquireAll(keys, args []string, db *DB) any {
	said := timedAll(model.AcquireAll[string, string])(keys, args, db)
	if i, ok := said.(int); ok && i < 0 {
		return Blocked(keys, -i-1, db)
	}
	return said
}

// Blocked is what the scripts that set a lock's keys say of the i-th, if it is
// in the way.
func Blocked(keys []string, i int, db *DB) string {
	value, _ := db.Get(keys[i])
	if len(value) > 100 {
		value = ""
	}
	return strconv.Itoa(i+1) + " " + value
}

// timed is a script with a key, a token, and a TTL in milliseconds.
func timed(do func(db model.Keys[string, string], key, token string, ttl time.Duration) int) Script {
	return func(keys, args []string, db *DB) any {
		n, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return err
		}
		return do(db, keys[0], args[0], time.Duration(n)*time.Millisecond)
	}
}

// timedAll is timed for a script with any number of keys.
func timedAll(do func(db model.Keys[string, string], keys []string, token string, ttl time.Duration) int) Script {
	return func(keys, args []string, db *DB) any {
		n, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return err
		}
		return do(db, keys, args[0], time.Duration(n)*time.Millisecond)
	}
}

// Each is a script that does the same for several keys, with so many arguments
// for each of them. It returns one result for each.
func Each(args int, one Script) Script {
	return func(keys, all []string, db *DB) any {
		results := make([]any, len(keys))
		for i := range keys {
			results[i] = one(keys[i:i+1], all[args*i:args*(i+1)], db)
		}
		return results
	}
}

// look is what look.lua does: it returns a long value by its digest.
func look(keys, _ []string, db *DB) any {
	value, there := db.Get(keys[0])
	switch {
	case !there:
		return nil
	case len(value) > 1024:
		return SHA1(value)
	}
	return value
}

// WriteSeal is what seal.lua does: the keys of the seal and of the opening, the
// verb, the identity, and what the verb needs.
func WriteSeal(keys, args []string, db *DB) any {
	before, err := markOf(keys, db)
	if err != nil {
		return 0 // a value of another form
	}
	change := model.Change{Verb: sealVerbs[args[0]]}
	who, err := pure.ParseOpening("redlock-opening 1 locked " + args[1])
	if err != nil || change.Verb == pure.Nothing {
		return fmt.Errorf("seal.lua got %q", args)
	}
	change.Identity = who.Identity
	var lasts time.Duration
	switch change.Verb {
	case pure.Propose:
		ms, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			return err
		}
		lasts, change.Replaces = time.Duration(ms)*time.Millisecond, strings.Fields(args[3])
	case pure.Confirm, pure.Adopt:
		if change.Seal, err = pure.ParseSeal(args[2]); err != nil {
			return err
		}
	}
	after, done := model.Seal(before, change)
	if !done {
		return 0
	}
	if after.Seal != before.Seal {
		db.Set(keys[0], after.Seal.String(), 0)
	}
	switch {
	case after.Opening == before.Opening:
	case after.Opening.Stage == pure.NoOpening:
		db.Delete(keys[1])
	default:
		db.Set(keys[1], after.Opening.String(), lasts)
	}
	return 1
}

var sealVerbs = map[string]pure.Verb{
	"propose": pure.Propose, "lock": pure.Lock, "seal": pure.Confirm, "adopt": pure.Adopt, "undo": pure.Undo,
}

// markOf reads a node's seal and opening.
func markOf(keys []string, db *DB) (m model.Mark, err error) {
	if text, there := db.Get(keys[0]); there {
		if m.Seal, err = pure.ParseSeal(text); err != nil {
			return m, err
		}
	}
	if text, there := db.Get(keys[1]); there {
		m.Opening, err = pure.ParseOpening(text)
	}
	return m, err
}

// errHoldsElse is the error of a script that finds something else in a key.
var errHoldsElse = errors.New("ERR a key of fencing numbers holds something else")

// acquireFenced is what acquire_fenced.lua does.
func acquireFenced(keys, args []string, db *DB) any {
	var n [4]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(args[1+i], 10, 64); err != nil {
			return err
		}
	}
	k := len(keys) / 2
	said, ok := model.AcquireFenced(db, model.Fenced{
		Locks: keys[:k], Lasts: keys[k : 2*k], Record: keys[2*k], Token: args[0], TTL: time.Duration(n[0]) * time.Millisecond,
		Number: n[1], Lead: n[2], Period: time.Duration(n[3]) * time.Millisecond,
	}, db.clock.Now())
	switch {
	case !ok:
		return errHoldsElse
	case said.Code == model.Held:
		return []any{int64(said.Code), said.Number, Blocked(keys, said.Holder, db)}
	}
	return []int64{int64(said.Code), said.Number}
}

// writeFloor is what floor.lua does.
func writeFloor(keys, args []string, db *DB) any {
	floor, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	most := int64(model.NoMost)
	if len(args) > 3 {
		if most, err = strconv.ParseInt(args[3], 10, 64); err != nil {
			return err
		}
	}
	done, ok := model.Floor(db, keys[0], keys[1], args[0], args[1], floor, most)
	if !ok {
		return errHoldsElse
	}
	if !done {
		return 0
	}
	return 1
}
