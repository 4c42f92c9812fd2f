package conn

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/redmux/redmux/internal/errtext"
)

// tlsPatience is how long a TLS handshake may be silent before the node is asked
// whether it speaks plaintext.
const tlsPatience = 500 * time.Millisecond

var errPlaintext = errors.New("it answers plaintext")

// errPlain is what a TLS handshake ends with that a plaintext port gets. It has
// cost two connections.
var errPlain = errtext.Wrap(errPlaintext.Error(), errPlaintext, ErrUnanswered)

// suspectPlain returns a context for a TLS handshake, which ends with errPlain if
// the handshake is not over in time and the node answers plaintext on another
// connection. Redis takes the handshake for the beginning of a line and waits for
// the rest of it. Nothing but PING is sent in plaintext (R21). The function
// returned ends that; the context is over then, unless it was before.
func (cfg *Config) suspectPlain(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	timer := time.AfterFunc(tlsPatience, func() {
		defer close(done)
		if cfg.answersPlaintext(ctx) {
			cancel(errPlain)
		}
	})
	return ctx, func() {
		cancel(nil)
		if !timer.Stop() {
			<-done
		}
	}
}

// answersPlaintext reports whether an unencrypted PING is answered as RESP has
// it, with PONG or an error.
func (cfg *Config) answersPlaintext(ctx context.Context) bool {
	nc, err := cfg.reach(ctx)
	if err != nil {
		return false
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer func() {
		if stop() {
			_ = nc.Close()
		}
	}()
	first := make([]byte, 1)
	if _, err := io.WriteString(nc, "PING\r\n"); err != nil {
		return false
	}
	_, err = io.ReadFull(nc, first)
	return err == nil && (first[0] == '+' || first[0] == '-')
}
