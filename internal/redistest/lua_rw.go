package redistest

import (
	"strconv"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/lua/model"
)

// teachRW registers the scripts of read/write locks.
func (n *Node) teachRW() {
	n.Script(lua.Read, read)
	n.Script(lua.Write, write)
	n.Script(lua.Downgrade, downgrade)
	n.Script(lua.ExtendRead, extendRead)
	n.Script(lua.ReleaseRead, func(keys, args []string, db *DB) any {
		return model.ReleaseRead(db, keys[0], keys[1], args[0], args[1], db.clock.Now())
	})
}

func rwKeys(keys []string) model.RWKeys {
	return model.RWKeys{Writer: keys[0], Readers: keys[1], Mark: keys[2]}
}

// read is what read.lua does: the value, and the TTL in milliseconds.
func read(keys, args []string, db *DB) any {
	ttl, err := milliseconds(args[1])
	if err != nil {
		return err
	}
	n := model.Read(db, rwKeys(keys), args[0], ttl, db.clock.Now())
	if n < 0 {
		return Blocked(keys, -n-1, db)
	}
	return n
}

// write is what write.lua does: the value, the TTL in milliseconds, the value
// of the writer as a reader, and the milliseconds of the mark.
func write(keys, args []string, db *DB) any {
	ttl, err := milliseconds(args[1])
	if err != nil {
		return err
	}
	mark, err := milliseconds(args[3])
	if err != nil {
		return err
	}
	switch n, reader := model.Write(db, rwKeys(keys), args[0], ttl, args[2], mark, db.clock.Now()); n {
	case -2:
		if len(reader) > 100 {
			reader = ""
		}
		return "2 " + reader
	case -1:
		return Blocked(keys, 0, db)
	default:
		return n
	}
}

// downgrade is what downgrade.lua does: the writer's value, the reader's, and
// the TTL in milliseconds.
func downgrade(keys, args []string, db *DB) any {
	ttl, err := milliseconds(args[2])
	if err != nil {
		return err
	}
	return model.Downgrade(db, rwKeys(keys), args[0], args[1], ttl, db.clock.Now())
}

// extendRead is what extend_read.lua does: the value, and the TTL in
// milliseconds.
func extendRead(keys, args []string, db *DB) any {
	ttl, err := milliseconds(args[1])
	if err != nil {
		return err
	}
	return model.ExtendRead(db, keys[0], args[0], ttl, db.clock.Now())
}

func milliseconds(text string) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(n) * time.Millisecond, err
}
