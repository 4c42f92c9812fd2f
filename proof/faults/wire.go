package faults

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/redmux/redmux/proof/history"
)

// The parent and its client processes exchange lines of JSON, over the
// process's standard input and output. Events of histories have a form of their
// own, see history.Event.

// An order is what a process is told to do.
type order struct {
	Do    string // one of the constants below
	Setup *setup `json:",omitempty"`
	Round int    `json:",omitempty"` // with orderRest: which rest it is
}

const (
	orderSetup = "setup" // the first
	orderRest  = "rest"  // make no attempts, and tell what is still held
	orderGo    = "go"    // go on
	orderStop  = "stop"  // release, close, tell the last figures and exit
)

// A setup is all that a process must know. It goes through a pipe because it
// has a password, which other users of the machine could read on a command
// line.
type setup struct {
	Name     int      // of the process, never used before
	Nodes    []string // URLs, as this process reaches the nodes
	Direct   []string // paths of the nodes' unix sockets, for looks from the side
	Password string   // of the user
	MaxTTL   time.Duration
	Callers  int // of the uncontended load
	Portable bool
	Seed     uint64
	Broken   string // see Options.Broken
}

// A tale is what a process tells. Exactly one field is set, but for Last, which
// goes with Tally.
type tale struct {
	Beat    int64    `json:",omitempty"` // no event that comes later has an earlier time
	Ready   bool     `json:",omitempty"`
	Tally   Tally    `json:",omitempty"` // since the process began
	Oddity  *oddity  `json:",omitempty"`
	Resting *resting `json:",omitempty"` // again and again while it rests
	Sample  *Sample  `json:",omitempty"`
	Last    bool     `json:",omitempty"`
}

// An oddity is a finding of a process. If it is Excusable, it is none if a node
// forgot its keys between From and To.
type oddity struct {
	What      string
	Excusable bool
	From, To  int64
}

// resting is what a process has while it makes no attempts.
type resting struct {
	Round  int      // as it was ordered
	Parked bool     // every caller has come to rest
	Nodes  []string // of each node, over all clients of the process: "" where it is up and owed nothing, else why not
	Held   []string // digests of the tokens of living holds, and of locks that were dropped
}

// A teller writes tales and events, each line at once, so that what a process
// has told is known even if it is killed. Events get their time under its
// mutex, so that times in the stream never decrease.
type teller struct {
	clock history.Clock
	mu    sync.Mutex // guards the following
	to    io.Writer
	line  []byte
}

// event tells an event of this moment.
func (t *teller) event(e history.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.T = t.clock.Now()
	t.line = e.AppendLine(t.line[:0])
	_, _ = t.to.Write(t.line) // a parent that is gone ends this process by itself
}

// beat tells the time, so that the events of other processes need not wait for
// ours.
func (t *teller) beat() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(&tale{Beat: t.clock.Now()})
}

func (t *teller) tell(what *tale) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(what)
}

func (t *teller) put(what *tale) {
	line, err := json.Marshal(what)
	if err != nil {
		panic("faults: a tale cannot be told: " + err.Error())
	}
	_, _ = t.to.Write(append(line, '\n'))
}
