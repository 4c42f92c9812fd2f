package redistest

import (
	"errors"
	"strconv"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/lua/model"
)

// teachFair registers the scripts of fair locks.
func (n *Node) teachFair() {
	n.Script(lua.AskFair, askFair)
	n.Script(lua.ReleaseFair, func(keys, args []string, db *DB) any {
		return model.ReleaseFair(db, keys[0], keys[1], keys[2], keys[3], args[0], args[1], args[2] == "1")
	})
}

// askFair is what ask_fair.lua does.
func askFair(keys, args []string, db *DB) any {
	q := model.Question{
		Key: keys[0], Queue: keys[1], Highest: keys[2], Holder: keys[3], Lease: keys[4],
		Value: args[0], Waiter: args[2], Mode: args[4], Names: args[6],
	}
	var errs [3]error
	q.TTL, errs[0] = milliseconds(args[1])
	q.Ticket, errs[1] = strconv.ParseInt(args[3], 10, 64)
	q.Leases, errs[2] = milliseconds(args[5])
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	granted, text := model.AskFair(db, q)
	if granted {
		return 1
	}
	return text
}
