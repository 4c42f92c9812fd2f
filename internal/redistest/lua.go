package redistest

import (
	"strconv"
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
	n.Script(lua.ExtendMany, Each(2, Extend))
	n.Script(lua.Heal, timed(model.Heal[string, string]))
	n.Script(lua.Shorten, timed(model.Shorten[string, string]))
	n.Script(lua.Look, look)
	n.Script(lua.Seal, WriteSeal)
}

// Release is what release.lua does: KEYS[1] and its token.
func Release(keys, args []string, db *DB) any { return model.Release(db, keys[0], args[0]) }

// Extend is what extend.lua does: KEYS[1], its token, and the TTL in
// milliseconds.
func Extend(keys, args []string, db *DB) any {
	return timed(model.Extend[string, string])(keys, args, db)
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

// WriteSeal is what seal.lua does: KEYS[1] and the seal.
func WriteSeal(keys, args []string, db *DB) any {
	written, err := pure.ParseSeal(args[0])
	if err != nil {
		return err
	}
	if text, there := db.Get(keys[0]); there {
		old, err := pure.ParseSeal(text)
		if err != nil {
			return 0
		}
		written = model.Seal(old, written)
	}
	db.Set(keys[0], written.String(), 0)
	return 1
}
