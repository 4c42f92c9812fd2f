package conn

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/redmux/redmux/internal/errtext"
)

// tlsPatience is how long a TLS handshake may take before the node is asked
// whether it speaks plaintext.
const tlsPatience = 500 * time.Millisecond

var errPlaintext = errors.New("it answers plaintext")

// errPlain is the error of a TLS handshake with a plaintext port. It is
// ErrUnanswered because it took two connections.
var errPlain = errtext.Wrap(errPlaintext.Error(), errPlaintext, ErrUnanswered)

// suspectPlain returns a context for a TLS handshake. The context ends with
// errPlain if the handshake is not over in time and the node answers plaintext
// on another connection: a Redis without TLS takes the handshake for the
// beginning of a line and waits for the rest. Only PING is sent in plaintext
// (R21). The caller must call the returned function after the handshake; it
// ends the context.
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

// answersPlaintext reports whether the node answers an unencrypted PING in
// RESP, with a simple string or an error.
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
