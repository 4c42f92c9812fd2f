package redistest

import (
	"errors"
	"strconv"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/lua/model"
)

// teachPermits registers the scripts of semaphores.
func (n *Node) teachPermits() {
	n.Script(lua.AcquirePermit, acquirePermit)
	n.Script(lua.ExtendPermit, func(keys, args []string, db *DB) any {
		ttl, errTTL := milliseconds(args[1])
		other, errOther := milliseconds(args[2])
		permits, errPermits := strconv.Atoi(args[3])
		if err := errors.Join(errTTL, errOther, errPermits); err != nil {
			return err
		}
		return model.ExtendPermit(db, keys[0], keys[1], args[0], ttl, other, permits, db.clock.Now())
	})
	n.Script(lua.ReleaseMarked, func(keys, args []string, db *DB) any {
		return model.ReleaseMarked(db, keys[0], keys[1], args[0])
	})
}

var errNoPermits = errors.New("ERR the record of permits holds something else")

// acquirePermit is what acquire_permit.lua does.
func acquirePermit(keys, args []string, db *DB) any {
	p := model.Permit{Key: keys[0], Record: keys[1], Mark: keys[2], Value: args[0], Names: args[4]}
	var errs [4]error
	p.TTL, errs[0] = milliseconds(args[1])
	p.Permits, errs[1] = strconv.Atoi(args[2])
	p.Number, errs[2] = strconv.Atoi(args[3])
	p.Waits, errs[3] = milliseconds(args[5])
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	granted, free, ok := model.AcquirePermit(db, p, db.clock.Now())
	switch {
	case !ok:
		return errNoPermits
	case granted:
		return 1
	}
	return model.FreePermits(free)
}
