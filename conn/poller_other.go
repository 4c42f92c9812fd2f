//go:build !linux || redmux_portable

package conn

import (
	"crypto/tls"
	"errors"
	"net"
)

// A Poller waits for many connections at once. This system has none: NewPoller
// fails, so the methods are never called.
type Poller struct{}

// NewPoller returns errors.ErrUnsupported. Each connection is read by
// Conn.Fill.
func NewPoller(int) (*Poller, error) { return nil, errors.ErrUnsupported }

// Wait returns errors.ErrUnsupported.
func (*Poller) Wait() (events []Event, waited bool, err error) {
	return nil, false, errors.ErrUnsupported
}

// Look returns errors.ErrUnsupported.
func (*Poller) Look() (events []Event, err error) { return nil, errors.ErrUnsupported }

// Fill returns errors.ErrUnsupported.
func (*Poller) Fill(*Conn) (more bool, err error) { return false, errors.ErrUnsupported }

// Resume does nothing.
func (*Poller) Resume(*Conn) {}

// Readable returns 0.
func (*Poller) Readable(uint64) uint64 { return 0 }

// Kick does nothing.
func (*Poller) Kick() {}

// Add returns false: the connection is read by Conn.Fill.
func (*Poller) Add(*Conn, int) bool { return false }

// Remove does nothing.
func (*Poller) Remove(*Conn) {}

// Close does nothing.
func (*Poller) Close() error { return nil }

// polled is empty: no Poller has a connection.
type polled struct{}

// overTLS returns TLS over nc.
func overTLS(nc net.Conn, config *tls.Config) *tls.Conn { return tls.Client(nc, config) }
