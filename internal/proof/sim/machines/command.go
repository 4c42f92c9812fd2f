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
	set                          // SET NX PX
	release                      // compare and delete
	extend                       // compare and lengthen
	heal                         // the same, or set it again
	load                         // SCRIPT LOAD
	lookSeal                     // GET of the seal
	lookOpening                  // GET of the opening
	changeSeal                   // the script that changes either
)

// script reports whether the command runs a script.
func (o operation) script() bool { return o == release || o == extend || o == heal || o == changeSeal }

// A command is what goes over the wire. All servers share it, and the referee
// records in it what they did.
type command struct {
	op      operation
	attempt *attempt // the owner of the token
	ttl     time.Duration
	target  *wire // of kill
	change  model.Change

	// For the referee.
	sent    instant       // when it was first sent, by the process's clocks
	at      time.Duration // the same in true time
	granted multiplex.Set // servers that set or lengthened the key for it
	rivals  bool          // the process saw several deployments when it was queued
}

// An attempt is one try to acquire a lock, with its token. The referee knows
// all of it.
type attempt struct {
	index    int // in world.attempts
	token    uint64
	resource int
	process  *process
	started  time.Duration // true time
	asks     []*command    // SETs, extensions and healings
	over     bool          // it failed, or the lock was released or given up
	ended    time.Duration // when
	released multiplex.Set // servers that executed a release of it
	due      time.Duration // the end of its keys, if no clock is set
	kept     bool          // it was given up without a release: its keys may stay until their TTL ends
}

func (w *world) newAttempt(p *process, resource int, token uint64) *attempt {
	a := &attempt{index: len(w.attempts), token: token, resource: resource, process: p, started: w.now}
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
	mark model.Mark // one half of it

	// What a server tells of its past.
	uptime, clock time.Duration
	promoted      bool
}

type replyKind uint8

const (
	isOK       replyKind = iota // +OK, and any other reply to a command with a single good answer
	isNull                      // null
	isInteger                   // n
	isError                     // -OOM, -BUSY, -NOPERM …
	isNoScript                  // -NOSCRIPT
)

// bit returns the set of one node.
func bit(node int) multiplex.Set { return 1 << uint(node) }

// all returns the set of all n nodes.
func all(n int) multiplex.Set { return 1<<uint(n) - 1 }
