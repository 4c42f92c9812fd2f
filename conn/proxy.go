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
	// ErrProxy is a peer that answers, but not as a server does: twemproxy ends a
	// connection at a command that it does not know, envoy answers with an error.
	// Behind a proxy nothing of what R8, R22 and R23 demand can be known.
	ErrProxy = errors.New("peer looks like a proxy, such as twemproxy or envoy: name the masters themselves")
	// ErrUnanswered is a connection that ended before the first answer. It may
	// have cost two: see ErrProxy.
	ErrUnanswered = errors.New("connection ended before the first answer")
)

// pingPatience bounds how long a peer that hung up is asked further.
const pingPatience = time.Second

// orProxy returns ErrProxy in place of the error of a handshake that was never
// answered, if the peer answers to PING.
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
	c := newConn(newLink(nc), cfg.String(), cfg.Password, cfg.Limits, cfg.Backlog)
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

// unfamiliar reports an error by which a proxy says that it does not know a
// command.
func unfamiliar(v resp.Value) bool {
	if !v.IsError() {
		return false
	}
	text := bytes.ToLower(v.Bytes())
	return bytes.Contains(text, []byte("unknown command")) || bytes.Contains(text, []byte("unsupported command")) ||
		bytes.Contains(text, []byte("invalid request"))
}
