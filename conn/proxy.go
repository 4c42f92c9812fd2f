package conn

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
)

var (
	// ErrProxy is returned by Dial for a peer that answers PING, but not
	// the handshake. At an unknown command, twemproxy closes the
	// connection, and envoy answers with an error. What R8, R22 and R23
	// require cannot be known behind a proxy.
	ErrProxy = errors.New("peer looks like a proxy, such as twemproxy or envoy: name the masters themselves")
	// ErrUnanswered is returned by Dial when the connection ends before the
	// first answer. Dial may then have opened a second one: see ErrProxy.
	ErrUnanswered = errors.New("connection ended before the first answer")
)

// pingPatience bounds each further connection to a peer that closed the first.
const pingPatience = time.Second

// lookAgain returns a better error than ErrUnanswered, if there is one: the
// peer ended the connection without a word, and further connections may show
// why. No secret is sent there. Without a better error, the peer may be a proxy
// that has no server at the moment.
func (cfg *Config) lookAgain(ctx context.Context, err error) error {
	if !errors.Is(err, ErrUnanswered) || errors.Is(err, errPlaintext) || isAlert(err) || ctx.Err() != nil {
		return err
	}
	answers, hangsUp := cfg.ping(ctx)
	switch {
	case hangsUp:
		return &Error{Op: "handshake", Addr: cfg.String(), Err: errtext.Wrap(
			errtext.Text(ErrProxy)+" (it answers PING, and ends the connection at the handshake)", ErrProxy, err)}
	case !answers && cfg.TLS == nil && cfg.speaksTLS(ctx):
		var first *Error
		errors.As(err, &first)
		return &Error{Op: "handshake", Addr: cfg.String(), Err: &PeerError{Speaks: speaksTLS, Err: first.Err}}
	}
	return err
}

// ping reports whether the peer answers a PING over another connection, and
// then ends that connection at a HELLO. Both must happen on one connection: a
// proxy may have had no server for the first one.
func (cfg *Config) ping(ctx context.Context) (answers, hangsUp bool) {
	ctx, cancel := context.WithTimeout(ctx, pingPatience)
	defer cancel()
	nc, err := cfg.dial(ctx)
	if err != nil {
		return false, false
	}
	c := newConn(newLink(nc), cfg.String(), cfg.secrets(), cfg.Limits, cfg.Backlog)
	defer c.Close()
	first := resp.AppendCommand(nil, "PING")
	err = c.exchange(ctx, "handshake", first, 1, func(_ int, v resp.Value) error {
		if string(v.Bytes()) != "PONG" && ClassOf(v) != ClassNoAuth {
			return ErrUnanswered
		}
		answers = true
		return nil
	})
	if err != nil {
		return answers, false
	}
	err = c.exchange(ctx, "handshake", resp.AppendCommand(nil, "HELLO", "3"), 1, func(int, resp.Value) error { return nil })
	return answers, err != nil && ctx.Err() == nil
}

// speaksTLS reports whether the peer answers the beginning of a TLS handshake
// with a record of TLS: the node's port has TLS, and the URL asks for none.
func (cfg *Config) speaksTLS(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingPatience)
	defer cancel()
	nc, err := cfg.reach(ctx)
	if err != nil {
		return false
	}
	l := &listening{Conn: nc}
	// Only the first bytes matter.
	t := tls.Client(l, &tls.Config{InsecureSkipVerify: true})
	_ = t.HandshakeContext(ctx)
	_ = nc.Close()
	return speaks(l.first) == speaksTLS
}

// A listening connection keeps the first bytes that are read.
type listening struct {
	net.Conn
	first []byte
}

// Read reads, and keeps the bytes if they are the first.
func (l *listening) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if len(l.first) < 2 {
		l.first = append(l.first, p[:n]...)
	}
	return n, err
}

// unfamiliar reports whether v is a proxy's error for an unknown command.
func unfamiliar(v resp.Value) bool {
	if !v.IsError() {
		return false
	}
	text := bytes.ToLower(v.Bytes())
	return bytes.Contains(text, []byte("unknown command")) || bytes.Contains(text, []byte("unsupported command")) ||
		bytes.Contains(text, []byte("invalid request"))
}
