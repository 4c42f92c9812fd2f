package conn

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
)

var (
	// ErrProxy is returned by Dial when the peer answers PING, but not the
	// handshake: when twemproxy does not know a command it closes the
	// connection, and envoy answers with an error. What R8, R22 and R23 require
	// cannot be known behind a proxy.
	ErrProxy = errors.New("peer looks like a proxy, such as twemproxy or envoy: name the masters themselves")
	// ErrUnanswered is returned by Dial when the connection ends before the
	// first answer. Dial may then have opened a second one: see ErrProxy.
	ErrUnanswered = errors.New("connection ended before the first answer")
)

// pingPatience bounds the second connection to a peer that closed the first.
const pingPatience = time.Second

// orProxy returns ErrProxy in place of ErrUnanswered if the peer answers a PING
// over another connection.
func (cfg *Config) orProxy(ctx context.Context, err error) error {
	if !errors.Is(err, ErrUnanswered) || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pingPatience)
	defer cancel()
	nc, failed := cfg.dial(ctx)
	if failed != nil {
		return err
	}
	c := newConn(newLink(nc), cfg.String(), cfg.secrets(), cfg.Limits, cfg.Backlog)
	answer := resp.AppendCommand(nil, "PING")
	failed = c.exchange(ctx, "handshake", answer, 1, func(_ int, v resp.Value) error {
		if string(v.Bytes()) != "PONG" && ClassOf(v) != ClassNoAuth {
			return ErrUnanswered
		}
		return nil
	})
	_ = c.Close()
	if failed != nil {
		return err
	}
	return &Error{Op: "handshake", Addr: cfg.String(), Err: errtext.Wrap(
		errtext.Text(ErrProxy)+" (it answers PING, and ends the connection at the handshake)", ErrProxy, err)}
}

// unfamiliar reports whether v is the error that a proxy returns for a command
// that it does not know.
func unfamiliar(v resp.Value) bool {
	if !v.IsError() {
		return false
	}
	text := bytes.ToLower(v.Bytes())
	return bytes.Contains(text, []byte("unknown command")) || bytes.Contains(text, []byte("unsupported command")) ||
		bytes.Contains(text, []byte("invalid request"))
}
