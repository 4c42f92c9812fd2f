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
	releaseSHA1     = "9741606919ce8e452a9848317462e319ca527231"
	releaseManySHA1 = "7828f87bfa8c291e69184340fdc9bf02bbd1a8a5"
	extendSHA1      = "c8c0cdcad3dd3c8e643961a8cf16951ba66f8400"
	extendManySHA1  = "9a65fedcfbca81fcfe9e6a73e10da35a25c76a56"
	healSHA1        = "0bd6ca0b2aeb7e6b2661b061c436535d0d3abe3c"
	shortenSHA1     = "09afeedf8d564995105380179f4ec224d481d6d3"
	lookSHA1        = "29bbabd833f04080374ddbfd772e79170600949c"
	sealSHA1        = "5705b2bcf507915ae774ce142f593006d2d99645"
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
