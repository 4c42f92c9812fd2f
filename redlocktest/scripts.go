package redlocktest

import (
	"strconv"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
)

// A node in memory runs no Lua. The work of each script of package redlock is
// repeated here in Go, under the digest by which servers know the script. A
// change to the Lua needs a look at the Go; TestScripts, which compares both on
// a real server, reports the new digest.
const (
	releaseSHA1     = "0304084ffd9c744bc64c9b6fe3a21351cbe38804"
	releaseManySHA1 = "304bcb451d2301f11bb33e9e9b5fa1616fb7e23c"
	extendSHA1      = "7339c6a49a9471279ae7f4af599d941f77d62b81"
	extendManySHA1  = "1113f6745a641eec9068e872886cbd2b442ecf1e"
	healSHA1        = "da0c49514c62945c97b469108dde5a32b5001a60"
	shortenSHA1     = "32e880fef270abd4570bf5a878111831a8c40fb4"
	lookSHA1        = "b5cb84ed9fedebf9eec13904a590aab8616f7fcc"
	sealSHA1        = "50cf24afaff890fde2084af2f71f3d9d4c82be5b"
)

// teach registers the scripts with the node.
func teach(n *redistest.Node) {
	n.ScriptSHA1(releaseSHA1, func(keys, args []string, db *redistest.DB) any {
		return digit(db.DeleteIf(keys[0], args[0]))
	})
	n.ScriptSHA1(releaseManySHA1, func(keys, args []string, db *redistest.DB) any {
		return each(keys, func(i int) any { return digit(db.DeleteIf(keys[i], args[i])) })
	})
	n.ScriptSHA1(extendSHA1, func(keys, args []string, db *redistest.DB) any {
		return extend(db, keys[0], args[0], args[1])
	})
	n.ScriptSHA1(extendManySHA1, func(keys, args []string, db *redistest.DB) any {
		return each(keys, func(i int) any { return extend(db, keys[i], args[2*i], args[2*i+1]) })
	})
	n.ScriptSHA1(healSHA1, heal)
	n.ScriptSHA1(shortenSHA1, shorten)
	n.ScriptSHA1(sealSHA1, seal)
	n.ScriptSHA1(lookSHA1, look)
}

// extend lengthens the TTL and never shortens it (R10).
func extend(db *redistest.DB, key, token, ttl string) any {
	want, err := milliseconds(ttl)
	if err != nil {
		return err
	}
	return digit(db.ExtendIf(key, token, want))
}

// heal extends a key, or sets a missing one again.
func heal(keys, args []string, db *redistest.DB) any {
	if _, there := db.Get(keys[0]); there {
		return extend(db, keys[0], args[0], args[1])
	}
	ttl, err := milliseconds(args[1])
	if err != nil {
		return err
	}
	db.Set(keys[0], args[0], ttl)
	return 2
}

// shorten is a release that leaves the key in place for a while.
func shorten(keys, args []string, db *redistest.DB) any {
	if value, there := db.Get(keys[0]); !there || value != args[0] {
		return 0
	}
	want, err := milliseconds(args[1])
	if err != nil {
		return err
	}
	if rest, _ := db.TTL(keys[0]); rest == 0 || rest > want {
		db.Expire(keys[0], want)
	}
	return 1
}

// look returns a value, or the digest of a long one.
func look(keys, _ []string, db *redistest.DB) any {
	value, there := db.Get(keys[0])
	switch {
	case !there:
		return nil
	case len(value) > 1024:
		return redistest.SHA1(value)
	}
	return value
}

// seal never lowers what a seal says of one process (R23).
func seal(keys, args []string, db *redistest.DB) any {
	written, err := pure.ParseSeal(args[0])
	if err != nil {
		return err
	}
	if text, there := db.Get(keys[0]); there {
		old, err := pure.ParseSeal(text)
		if err != nil {
			return 0
		}
		written.MaxTTL = max(written.MaxTTL, old.MaxTTL)
		if written.Run == old.Run {
			written.Watched = max(written.Watched, old.Watched)
		}
	}
	db.Set(keys[0], written.String(), 0)
	return 1
}

// each returns one result for each key.
func each(keys []string, result func(i int) any) []any {
	results := make([]any, len(keys))
	for i := range keys {
		results[i] = result(i)
	}
	return results
}

// digit encodes a boolean as scripts return it.
func digit(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func milliseconds(text string) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(n) * time.Millisecond, err
}
