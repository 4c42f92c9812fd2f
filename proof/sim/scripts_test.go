package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
)

var (
	releaseDigest, releaseManyDigest = redistest.SHA1(lua.Release), redistest.SHA1(lua.ReleaseMany)
	healDigest, sealDigest           = redistest.SHA1(lua.Heal), redistest.SHA1(lua.Seal)
)

// teach registers the scripts, and breaks what is to be broken on purpose.
func teach(n *redistest.Node, b broken) {
	switch {
	case b.keeps:
		breakRelease(n, func(keys, args []string, db *redistest.DB) any {
			value, ok := db.Get(keys[0])
			return digit(ok && value == args[0])
		})
	case b.deletesAny:
		breakRelease(n, func(keys, _ []string, db *redistest.DB) any { return digit(db.Delete(keys[0])) })
	}
	if b.anyNumber {
		n.Script(lua.AcquireFenced, grantAnyNumber)
	}
	if b.shortens {
		n.Script(lua.Extend, extendAnyway)
		n.Script(lua.ExtendMany, each(3, extendAnyway))
		n.Script(lua.Heal, func(keys, args []string, db *redistest.DB) any {
			if _, there := db.Get(keys[0]); !there {
				db.Set(keys[0], args[0], milliseconds(args[1]))
				return 2
			}
			return extendAnyway(keys, args, db)
		})
	}
}

func breakRelease(n *redistest.Node, release redistest.Script) {
	n.Script(lua.Release, release)
	n.Script(lua.ReleaseMany, each(1, release))
}

// each does the same for several keys, with so many arguments for each.
func each(args int, one redistest.Script) redistest.Script {
	return func(keys, all []string, db *redistest.DB) any {
		results := make([]any, len(keys))
		for i := range keys {
			results[i] = one(keys[i:i+1], all[args*i:args*(i+1)], db)
		}
		return results
	}
}

// extendAnyway also shortens: what extend.lua must not do (R10).
func extendAnyway(keys, args []string, db *redistest.DB) any {
	value, ok := db.Get(keys[0])
	return digit(ok && value == args[0] && db.Expire(keys[0], milliseconds(args[1])))
}

func digit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func milliseconds(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return time.Duration(n) * ms
}

// sealTwice makes a master keep a seal, and an opening, for each of the two
// sets.
func sealTwice(m *master) {
	n := m.node
	n.Handle(func(conn int, args []string) ([]byte, bool) {
		var place int
		_, _ = fmt.Sscanf(m.nameOf(conn), "p%d.", &place)
		own := func(key string) string { return strconv.Itoa(place%2) + ":" + key }
		switch {
		case args[0] == "GET" && strings.Contains(args[1], "redlock:"):
			if value, there := n.Get(own(args[1])); there {
				return resp.AppendBulkString(nil, value), true
			}
			return []byte("_\r\n"), true
		case args[0] == "EVALSHA" && args[1] == sealDigest:
			return n.Eval(lua.Seal, []string{own(args[3]), own(args[4])}, args[5:]...), true
		}
		return nil, false
	})
}

// arrange breaks the rest of what is to be broken on purpose.
func (b broken) arrange(m *master) {
	n := m.node
	if b.sealsTwice {
		sealTwice(m)
	}
	n.Handle(func(_ int, args []string) ([]byte, bool) {
		switch {
		case args[0] == "CLIENT" && args[1] == "KILL" && b.deafToKill:
			return []byte(":1\r\n"), true
		case args[0] != "SET":
			return nil, false
		case m.index < b.liars:
			return []byte("+OK\r\n"), true
		case !b.withoutNX && !b.forgetsTTL && !b.grantsShort:
			return nil, false
		}
		if _, there := n.Get(args[1]); there && !b.withoutNX {
			return []byte("_\r\n"), true
		}
		ttl := milliseconds(args[len(args)-1])
		switch {
		case b.forgetsTTL:
			ttl = 0
		case b.grantsShort:
			ttl -= ttl / 10
		}
		n.DB().Set(args[1], args[2], ttl)
		return []byte("+OK\r\n"), true
	})
}
