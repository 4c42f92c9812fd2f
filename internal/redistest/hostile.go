package redistest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Hostile is an answer that no honest server gives (R16, R18).
type Hostile struct {
	Name string

	// Bytes are the answer; Forever, when set, writes more behind them until w
	// returns an error.
	Bytes   []byte
	Forever func(w io.Writer) error

	// Drip sends Bytes one at a time.
	Drip bool

	// Early sends them unasked when a connection that has shaken hands is idle,
	// and answers the command with silence.
	Early bool

	// If Tracking, only the first PTTL of a connection that tracks keys gets
	// Bytes, which begin with the answer to it.
	Tracking bool

	// If MayLive, the answer is well-formed, and a client may go on with the
	// connection.
	MayLive bool
}

// Stream writes the answer. Without Forever it ends by itself.
func (h Hostile) Stream(w io.Writer) error {
	if !h.Drip {
		if _, err := w.Write(h.Bytes); err != nil {
			return err
		}
	} else {
		for i := range h.Bytes {
			if _, err := w.Write(h.Bytes[i : i+1]); err != nil {
				return err
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	if h.Forever == nil {
		return nil
	}
	return h.Forever(w)
}

// Sample returns the first limit bytes of the answer, for a decoder without a
// socket.
func (h Hostile) Sample(limit int) []byte {
	w := &sampler{limit: limit}
	h.Drip = false
	h.Stream(w)
	return w.buf.Bytes()
}

// HostileNode is a Node that shakes hands well and then answers lock commands
// with a Hostile. Every script it is given works on no key and answers 0.
type HostileNode struct {
	*Node
	hostile Hostile
	all     bool

	mu     sync.Mutex // guards the following
	armed  map[int]bool
	timers map[int]*time.Timer
	closed bool
}

// NewHostileNode serves a listener, of a Network or of real sockets, and owns
// it. The hostile answer goes to SET and, when all is true, to every EVAL,
// EVALSHA, DELEX and DELIFEQ that follows the first SET of a connection.
func NewHostileNode(l net.Listener, h Hostile, all bool) *HostileNode {
	n := &HostileNode{
		Node: NewNode(NodeConfig{}), hostile: h, all: all,
		armed: make(map[int]bool), timers: make(map[int]*time.Timer),
	}
	n.Node.Handle(n.shakeHands)
	n.Node.stream = n.lie
	n.Node.Serve(l)
	return n
}

// StartHostile is NewHostileNode on a free TCP port of this machine.
func StartHostile(h Hostile, all bool) (*HostileNode, error) {
	l, err := listenLow()
	if err != nil {
		return nil, err
	}
	return NewHostileNode(l, h, all), nil
}

// Close ends the node, also in the middle of an endless answer.
func (n *HostileNode) Close() error {
	n.mu.Lock()
	n.closed = true
	for _, t := range n.timers {
		t.Stop()
	}
	n.mu.Unlock()
	return n.Node.Close()
}

// idle is how long a connection is quiet before an Early answer comes. All of
// a handshake is one write, so the quiet begins when it is over.
const idle = 10 * time.Millisecond

// shakeHands answers scripts while a connection has not sent a SET yet.
func (n *HostileNode) shakeHands(id int, args []string) ([]byte, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	command := name(args)
	if n.arms(args) {
		n.armed[id] = true
	}
	if t := n.timers[id]; t != nil {
		t.Stop()
	}
	if n.hostile.Early && !n.armed[id] && !n.closed {
		n.timers[id] = time.AfterFunc(idle, func() { n.intrude(id) })
	}
	switch command {
	case "EVAL", "EVALSHA":
		return []byte(":0\r\n"), !n.lies(id, command)
	}
	return nil, false
}

// lie sends the hostile bytes as the answer.
func (n *HostileNode) lie(id int, args []string) func(io.Writer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.lies(id, name(args)) {
		return nil
	}
	if n.hostile.Early {
		return func(io.Writer) error { return nil }
	}
	return n.hostile.Stream
}

// arms reports whether a command is the first of those that may be lied to.
func (n *HostileNode) arms(args []string) bool {
	if n.hostile.Tracking {
		return name(args) == "CLIENT" && len(args) > 1 && strings.EqualFold(args[1], "CACHING")
	}
	return name(args) == "SET"
}

// lies is called with the lock held.
func (n *HostileNode) lies(id int, command string) bool {
	if n.hostile.Tracking {
		return command == "PTTL" && n.armed[id]
	}
	switch command {
	case "SET":
		return true
	case "EVAL", "EVALSHA", "DELEX", "DELIFEQ":
		return n.all && n.armed[id]
	}
	return false
}

// intrude sends an answer without a question.
func (n *HostileNode) intrude(id int) {
	// Both locks: no SET may come between the question and the answer.
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Node.mu.Lock()
	defer n.Node.mu.Unlock()
	if s := n.Node.sessions[id]; s != nil && !n.armed[id] {
		s.outputs = append(s.outputs, output{stream: n.hostile.Stream})
		s.ready.Broadcast()
	}
}

// HostileReplies are answers to SET of which none is a grant. A connection that
// receives one is to be killed (but see MayLive), and nothing else may happen:
// no panic, no memory beyond what was received, no vote.
var HostileReplies = []Hostile{
	// Lengths.
	{Name: "bulk length overflows int64", Bytes: []byte("$9223372036854775808\r\nOK\r\n")},
	{Name: "bulk length wraps to 2", Bytes: []byte("$18446744073709551618\r\nOK\r\n")},
	{Name: "bulk of negative length", Bytes: []byte("$-2\r\nOK\r\n")},
	{Name: "huge bulk sent", Bytes: []byte("$1073741824\r\n"), Forever: repeat("OK")},
	{Name: "array of a billion", Bytes: []byte("*1000000000\r\n+OK\r\n")},
	{Name: "array of negative length", Bytes: []byte("*-2\r\n+OK\r\n")},
	{Name: "map of 2^63 pairs", Bytes: []byte("%9223372036854775807\r\n+OK\r\n+OK\r\n")},
	{Name: "integer overflows int64", Bytes: []byte(":9223372036854775808\r\n")},

	// Depth and endlessness.
	{Name: "100,000 nested arrays", Bytes: []byte(strings.Repeat("*1\r\n", 100_000) + "+OK\r\n")},
	{Name: "nested arrays without end", Forever: repeat("*1\r\n")},
	{Name: "pushes without end", Forever: repeat(">2\r\n+message\r\n+OK\r\n")},
	{Name: "line without end", Bytes: []byte("+O"), Forever: repeat("K")},

	// Line ends and bytes.
	{Name: "bare LF", Bytes: []byte("+OK\n")},
	{Name: "bulk with the wrong terminator", Bytes: []byte("$2\r\nOKxx")},
	{Name: "bulk longer than it says", Bytes: []byte("$2\r\nOKOK\r\n")},
	{Name: "NULs", Bytes: make([]byte, 64)},
	{Name: "NUL inside OK", Bytes: []byte("+OK\x00\r\n")},
	{Name: "blank line before OK", Bytes: []byte("\r\n+OK\r\n")},
	{Name: "garbage, a byte at a time", Bytes: []byte("OK\r\n\xff\xfe+OK\r\n"), Drip: true},
	{Name: "array, a byte at a time", Bytes: []byte("*2\r\n+OK\r\n+OK\r\n"), Drip: true},
	{Name: "HTTP", Bytes: []byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 5\r\n\r\n+OK\r\n")},
	{Name: "unknown type", Bytes: []byte("@OK\r\n")},

	// Well-formed, and no answer to a SET.
	{Name: "+ok", Bytes: []byte("+ok\r\n")},
	{Name: "+OKx", Bytes: []byte("+OKx\r\n")},
	{Name: "empty simple string", Bytes: []byte("+\r\n")},
	{Name: "+QUEUED", Bytes: []byte("+QUEUED\r\n")},
	{Name: "bulk OK", Bytes: []byte("$2\r\nOK\r\n")},
	{Name: "verbatim OK", Bytes: []byte("=6\r\ntxt:OK\r\n")},
	{Name: "array of OK", Bytes: []byte("*1\r\n+OK\r\n")},
	{Name: "map of OK", Bytes: []byte("%1\r\n+OK\r\n+OK\r\n")},
	{Name: "integer 1", Bytes: []byte(":1\r\n")},
	{Name: "true", Bytes: []byte("#t\r\n")},
	{Name: "boolean neither true nor false", Bytes: []byte("#y\r\n")},
	{Name: "double", Bytes: []byte(",1.0\r\n")},
	{Name: "streamed string", Bytes: []byte("$?\r\n;2\r\nOK\r\n;0\r\n")},
	{Name: "push instead of a reply", Bytes: []byte(">1\r\n+OK\r\n")},
	{Name: "attribute and nothing behind it", Bytes: []byte("|1\r\n+OK\r\n+OK\r\n")},

	// Errors that are more than an error.
	{Name: "error with binary", Bytes: []byte("-\x00\xff\x1b[31m\x80 +OK\r\n"), MayLive: true},
	{Name: "bulk error with CRLF inside", Bytes: []byte("!14\r\nERR a\r\n+OK\r\nbc\r\n"), MayLive: true},
	{Name: "error and a surplus OK", Bytes: []byte("-ERR no\r\n+OK\r\n")},
	{Name: "null and a surplus OK", Bytes: []byte("_\r\n+OK\r\n")},
	{Name: "push before OK", Bytes: []byte(">2\r\n+message\r\n+x\r\n+OK\r\n")},

	// Before anything was asked.
	{Name: "unasked push", Bytes: []byte(">3\r\n+message\r\n+a\r\n+OK\r\n"), Early: true},
	{Name: "max number of clients", Bytes: []byte("-ERR max number of clients reached\r\n"), Early: true},
	{Name: "half a reply unasked", Bytes: []byte("+O"), Early: true},
}

// Floods are more than a lock's client can have asked for, each in well-formed
// pieces (R32).
var Floods = []Hostile{
	{Name: "invalidations", Tracking: true, Bytes: []byte(":100000\r\n"), Forever: repeat(invalidations(1))},
	{Name: "invalidations of ten", Tracking: true, Bytes: []byte(":100000\r\n"), Forever: repeat(invalidations(10))},
	{Name: "invalidations of 10,000", Tracking: true, Bytes: []byte(":100000\r\n"), Forever: repeat(invalidations(10_000))},
	{Name: "flushes", Tracking: true, Bytes: []byte(":100000\r\n"), Forever: repeat(">2\r\n$10\r\ninvalidate\r\n_\r\n")},
	{Name: "array of a million nulls", Bytes: []byte("*1000000\r\n" + strings.Repeat("_\r\n", 1_000_000))},
	{Name: "string of a megabyte", Bytes: []byte("$1000000\r\n" + strings.Repeat("x", 1_000_000) + "\r\n")},
}

func invalidations(keys int) string {
	return ">2\r\n$10\r\ninvalidate\r\n*" + strconv.Itoa(keys) + "\r\n" + strings.Repeat("$1\r\nx\r\n", keys)
}

// SurplusReplies begin with a reply that is a grant by itself: the vote may
// stand (R16: one lying node forges at most its own), but the connection dies,
// and no other command is answered by what follows.
var SurplusReplies = []Hostile{
	{Name: "OK twice", Bytes: []byte("+OK\r\n+OK\r\n")},
	{Name: "OK and garbage", Bytes: []byte("+OK\r\nOK")},
	{Name: "OK and a push", Bytes: []byte("+OK\r\n>2\r\n+message\r\n+x\r\n")},
	{Name: "OK and replies without end", Bytes: []byte("+OK\r\n"), Forever: repeat(":1\r\n")},
	{Name: "unasked OK", Bytes: []byte("+OK\r\n"), Early: true}, // may cross a SET on its way
	{Name: "attribute before OK", Bytes: []byte("|1\r\n+a\r\n+b\r\n+OK\r\n"), MayLive: true},
}

// repeat writes a pattern, some KiB at a time, until the write fails.
func repeat(pattern string) func(io.Writer) error {
	return func(w io.Writer) error {
		block := []byte(strings.Repeat(pattern, 1+4096/len(pattern)))
		for {
			if _, err := w.Write(block); err != nil {
				return err
			}
		}
	}
}

// sampler is a writer that is full at some time.
type sampler struct {
	buf   bytes.Buffer
	limit int
}

var errFull = errors.New("redistest: sample is complete")

// Write takes what there is room for; the error ends an endless answer.
func (s *sampler) Write(b []byte) (int, error) {
	room := s.limit - s.buf.Len()
	if room < len(b) {
		s.buf.Write(b[:room])
		return room, errFull
	}
	return s.buf.Write(b)
}
