package probe

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redmux/redmux/conn"
)

// A server that expects plaintext does not answer a TLS handshake: it waits for
// the rest of a command. Without a further check that would be a timeout, which
// does not say what is wrong.

const (
	// handshakeTakes is how long a handshake may take before the port is asked
	// whether it speaks plaintext. A quick one is never followed by a second
	// connection.
	handshakeTakes = 250 * time.Millisecond
	// plaintextTakes bounds that question.
	plaintextTakes = time.Second
)

// errPlaintext is the error of an endpoint with TLS whose port answers without.
var errPlaintext = errors.New("the URL asks for TLS: use redis:// or unix://, or the server's TLS port (tls-port)")

// watchForPlaintext checks whether the port speaks plaintext, if the endpoint
// has TLS and the handshake takes long. If it does, the returned context ends.
// found ends the watch, and returns what it found.
func (p *Probe) watchForPlaintext(ctx context.Context) (watched context.Context, found func() error) {
	if p.endpoint.TLS == nil {
		return ctx, func() error { return nil }
	}
	watched, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var err error
		select {
		case <-watched.Done():
		case <-time.After(handshakeTakes):
			if p.speaksPlaintext(watched) {
				err = &conn.Error{Op: "dial", Addr: p.endpoint.String(), Err: &conn.PeerError{Speaks: "RESP without TLS", Err: errPlaintext}}
				cancel()
			}
		}
		done <- err
	}()
	return watched, func() error {
		cancel()
		return <-done
	}
}

// speaksPlaintext sends a PING without TLS, and no secret (R21, R27). Only RESP
// has such answers.
func (p *Probe) speaksPlaintext(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, plaintextTakes)
	defer cancel()
	dial := p.dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	c, err := dial(ctx, p.endpoint.Network, p.endpoint.Addr)
	if err != nil {
		return false
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	var first [1]byte
	n, _ := c.Read(first[:])
	return n == 1 && (first[0] == '+' || first[0] == '-')
}
