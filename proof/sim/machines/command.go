package machines

import (
	"encoding/binary"
	"time"

	"github.com/redmux/redmux/internal/lua/model"
	"github.com/redmux/redmux/multiplex"
)

// An operation is what a process can ask a server to do.
type operation uint8

const (
	hello       operation = iota // the handshake
	kill                         // CLIENT KILL of an older connection
	set                          // SET NX PX, or the script for several keys, or that with a fencing number
	release                      // compare and delete
	extend                       // compare and lengthen
	heal                         // the same, or set it again
	load                         // SCRIPT LOAD
	lookSeal                     // GET of the seal
	lookOpening                  // GET of the opening
	changeSeal                   // the script that changes either
	lookRecord                   // GET of the record of fencing numbers
	giveFloor                    // the script that writes a floor into it
)

// A command is what goes over the wire. All servers share it, and the referee
// records in it what they did.
type command struct {
	op      operation
	attempt *attempt // the owner of the token
	ttl     time.Duration
	target  *wire // of kill
	change  model.Change
	floor   givenFloor

	// For the referee.
	sent    instant       // when it was first sent, by the process's clocks
	at      time.Duration // the same in true time
	granted multiplex.Set // servers that set or lengthened the key for it
	rivals  bool          // the process saw several deployments when it was queued
}

// script reports whether the command runs a script.
func (c *command) script() bool {
	switch c.op {
	case release, extend, heal, changeSeal, giveFloor:
		return true
	}
	return c.op == set && (c.attempt.number > 0 || len(c.attempt.resources) > 1 || c.attempt.form != nil)
}

// creates reports whether the command may set keys, so that it must not be
// executed behind the release that was sent after it (R8).
func (c *command) creates() bool { return c.op == set || c.op == heal }

// An attempt is one try to acquire a lock, with its token. The referee knows
// all of it.
type attempt struct {
	index     int // in world.attempts
	token     uint64
	resources []int // most have one
	number    int64 // the fencing number, if it has one
	form      *form // nil: it has one key for each resource
	process   *process
	started   time.Duration // true time
	asks      []*command    // SETs, extensions and healings
	over      bool          // it failed, or the lock was released or given up
	ended     time.Duration // when
	released  multiplex.Set // servers that executed a release of it
	due       time.Duration // the end of its keys, if no clock is set
	kept      bool          // it was given up without a release: its keys may stay until their TTL ends
}

func (w *world) newAttempt(p *process, resources []int, token uint64) *attempt {
	a := &attempt{index: len(w.attempts), token: token, resources: resources, process: p, started: w.now}
	w.attempts = append(w.attempts, a)
	return a
}

// newToken returns a token that was never used.
func (w *world) newToken() uint64 {
	w.tokens++
	return w.tokens
}

// encoded returns the release in the form that a ledger keeps.
func (a *attempt) encoded() []byte { return binary.BigEndian.AppendUint64(nil, uint64(a.index)) }

func (w *world) decoded(release string) *attempt {
	return w.attempts[binary.BigEndian.Uint64([]byte(release))]
}

// A reply is what a server answers.
type reply struct {
	kind replyKind
	n    int
	run  int64
	// process is the name of the process: run and the replication history.
	process string
	mark    model.Mark // one half of it

	text   string // why a form is refused
	record string // of fencing numbers; "" if there is none
	number int64  // with the code n, to a command with a fencing number

	// What a server tells of its past.
	uptime, clock time.Duration
	promoted      bool
}

type replyKind uint8

const (
	isOK       replyKind = iota // +OK, and any other reply to a command with a single good answer
	isNull                      // null
	isInteger                   // n
	isNumbered                  // n and number
	isText                      // text
	isError                     // -OOM, -BUSY, -NOPERM …
	isNoScript                  // -NOSCRIPT
)

// bit returns the set of one node.
func bit(node int) multiplex.Set { return 1 << uint(node) }

// all returns the set of all n nodes.
func all(n int) multiplex.Set { return 1<<uint(n) - 1 }
