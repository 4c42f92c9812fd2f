//go:build !linux || redmux_portable

package conn

import "errors"

// A Poller waits for many connections at once, where the system has a way.
type Poller struct{}

// NewPoller fails: there is none here, and each connection is read by Fill.
func NewPoller(int) (*Poller, error) { return nil, errors.ErrUnsupported }

// Wait fails at once. Nobody can have a Poller here.
func (*Poller) Wait() (events []Event, waited bool, err error) {
	return nil, false, errors.ErrUnsupported
}

// Look fails at once, as Wait does.
func (*Poller) Look() (events []Event, err error) { return nil, errors.ErrUnsupported }

// Readable knows of no connection.
func (*Poller) Readable(uint64) uint64 { return 0 }

// Kick does nothing.
func (*Poller) Kick() {}

// Add refuses every connection, which is read with Fill then.
func (*Poller) Add(*Conn, int) bool { return false }

// Remove does nothing.
func (*Poller) Remove(*Conn) {}

// Close has nothing to free.
func (*Poller) Close() error { return nil }

// descriptor is what a Poller makes of a connection's socket.
type descriptor struct{ link }

func (*descriptor) readNow([]byte) (int, error) { return 0, errors.ErrUnsupported }
func (*descriptor) resume()                     {}
