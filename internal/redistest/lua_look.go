package redistest

import (
	"strconv"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/lua/model"
)

// teachLooks registers the scripts that look at locks of several holders.
func (n *Node) teachLooks() {
	n.Script(lua.LookReaders, lookReaders)
	n.Script(lua.LookPermits, lookPermits)
	n.Script(lua.LookQueue, lookQueue)
}

// lookReaders is what look_readers.lua does: the keys, and how many to pass
// over.
func lookReaders(keys, args []string, db *DB) any {
	skip, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	marked, size, seen := model.LookReaders(db, model.RWKeys{Readers: keys[0], Mark: keys[1]}, skip, db.clock.Now())
	first := 0
	if marked {
		first = 1
	}
	return sights(size > 0, first, size, seen)
}

// lookPermits is what look_permits.lua does: the record; what the names of all
// permits begin with, and the number of the first.
func lookPermits(keys, args []string, db *DB) any {
	first, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	least, most, seen := model.LookPermits(db, keys[0], args[0], first, db.clock.Now())
	return sights(least > 0, least, most, seen)
}

// lookQueue is what look_queue.lua does: the keys; what the names of all leases
// begin with, and how many waiters to pass over.
func lookQueue(keys, args []string, db *DB) any {
	skip, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	size, seen := model.LookQueue(db, model.Question{Queue: keys[0], Key: keys[1], Holder: keys[2], Names: args[0]}, skip)
	return sights(size > 0, 0, size, seen)
}

// sights returns the reply of these scripts.
func sights(there bool, a, b int, seen []model.Sight) any {
	if !there {
		return nil
	}
	reply := []any{a, b}
	for _, s := range seen {
		rest, value := int64(-1), s.Value
		if s.Rest >= 0 {
			rest = s.Rest.Milliseconds()
		}
		if len(value) > 100 {
			value = SHA1(value)
		}
		reply = append(reply, s.Number, rest, value)
	}
	return reply
}
