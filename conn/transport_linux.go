//go:build !redmux_portable

package conn

import (
	"crypto/tls"
	"net"
)

// A transport is what crypto/tls reads records from and writes them to. Before
// a Poller takes over the connection, after the handshakes, it is the socket
// and waits as a socket does. From then on nothing waits: Read returns what the
// descriptor holds, or errNoMore, and Write is Conn.write, with its backlog. So
// crypto/tls runs between a Conn and its link, on the goroutines that call Fill
// and Send, and the link, the backlog and the events are those of a plain
// socket.
//
// Read and Write may run at the same time. crypto/tls has a mutex for each, and
// writes from Read too: to answer a KeyUpdate, and for alerts.
type transport struct {
	net.Conn // the socket
	tls      *tls.Conn

	// The following are set when a Poller takes the connection over.
	conn *Conn
	raw  *descriptor // nil before that

	// The following are owned by the read side.
	records
	failed error // what ended TLS, behind bytes that were returned
	// The following are of one turn, a call of decrypt.
	got   int  // bytes decrypted
	room  int  // bytes that may still be read
	short bool // a read returned less than it could: an event reports more
	left  bool // there may be bytes left that no event reports
}

// overTLS returns TLS over nc. It can be polled if nc is a socket and the node
// may not renegotiate: crypto/tls renegotiates within a Read, and that would
// wait.
func overTLS(nc net.Conn, config *tls.Config) *tls.Conn {
	if !isSocket(nc) || config.Renegotiation != tls.RenegotiateNever {
		return tls.Client(nc, config)
	}
	t := &transport{Conn: nc}
	t.tls = tls.Client(t, config)
	return t.tls
}

// under returns the connection below.
func (t *transport) under() net.Conn { return t.Conn }

// errNoMore tells crypto/tls that there is nothing to read at the moment. It is
// temporary. So crypto/tls returns it as it is, keeps its part of a record, and
// can be asked again.
var errNoMore net.Error = noMore{}

type noMore struct{}

// Error implements net.Error.
func (noMore) Error() string { return "nothing to read at the moment" }

// Timeout implements net.Error.
func (noMore) Timeout() bool { return true }

// Temporary implements net.Error. crypto/tls calls it.
func (noMore) Temporary() bool { return true }

// Read is called by crypto/tls when it has no whole record.
func (t *transport) Read(p []byte) (n int, err error) {
	switch {
	case t.raw == nil:
		n, err = t.Conn.Read(p)
	case t.short && t.got > 0: // saves a read that would find nothing
		return 0, errNoMore
	case t.room == 0:
		t.left = true
		return 0, errNoMore
	default:
		p = p[:min(len(p), t.room)]
		n, err = t.raw.readNow(p)
		t.room -= n
		t.short = n < len(p)
		if n == 0 && err == nil {
			err = errNoMore
		}
	}
	t.pass(p[:n])
	return n, err
}

// Write takes all of p. Its errors mean that the connection is broken: after an
// error, crypto/tls writes nothing more.
func (t *transport) Write(p []byte) (int, error) {
	if t.raw == nil {
		return t.Conn.Write(p)
	}
	if !t.conn.output.sending.Load() { // Read's own; the node may cause it at will
		if err := t.conn.stalled(); err != nil {
			return 0, err
		}
	}
	if err := t.conn.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ciphertextPerTurn bounds what one decrypt reads: records may hold no bytes at
// all (R32).
const ciphertextPerTurn = 16 << 10

// decrypt reads the bytes that the node has sent into p, without waiting. Like
// descriptor.readNow, it returns 0 without an error if there are none. After
// filling p or setting left, there may be more, and no event reports it.
func (t *transport) decrypt(p []byte) (n int, err error) {
	t.got, t.room, t.short, t.left = 0, ciphertextPerTurn, false, false
	if t.failed != nil {
		return 0, t.failed
	}
	for t.got < len(p) {
		n, err = t.tls.Read(p[t.got:])
		t.got += n
		switch {
		case err == errNoMore:
			t.whole = 0
			return t.got, nil
		case err != nil && t.got == 0:
			return 0, err
		case err != nil:
			t.failed, t.left = err, true
			return t.got, nil
		case t.whole == 1 && t.short && t.got < len(p):
			// These were the bytes of that record. Asking crypto/tls once more
			// would cost an allocation.
			t.whole = 0
			return t.got, nil
		}
	}
	return t.got, nil // crypto/tls may hold the rest of the record
}

// records follows TLS records in a stream of bytes (RFC 8446, 5.1): each begins
// with a header whose last two bytes are the length of the rest.
type records struct {
	head  int // bytes of the header that have passed
	rest  int // bytes that follow the header and have not passed
	whole int // records that have passed and that crypto/tls may still hold
}

const recordHeader = 5

// pass records that p was handed to crypto/tls.
func (r *records) pass(p []byte) {
	for len(p) > 0 {
		if r.head < recordHeader {
			if r.head >= recordHeader-2 {
				r.rest = r.rest<<8 | int(p[0])
			}
			r.head++
			p = p[1:]
		} else {
			n := min(len(p), r.rest)
			r.rest -= n
			p = p[n:]
		}
		if r.head == recordHeader && r.rest == 0 {
			r.head = 0
			r.whole++
		}
	}
}
