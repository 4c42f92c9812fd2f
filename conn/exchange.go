package conn

import (
	"context"
	"fmt"
	"time"

	"github.com/redmux/redmux/resp"
)

// Exchange writes p, which holds n commands, waits for their n replies and
// calls each with every one, error replies included. It may be called only
// while no other reply is awaited.
//
// Exchange breaks the connection at the end of ctx, with its cause in the
// error's chain; at an error of each; and at anything not requested:
// attributes, a push, or a byte behind the last reply (R16). After an error the
// connection is broken.
func (c *Conn) Exchange(ctx context.Context, p []byte, n int, each func(i int, v resp.Value) error) error {
	c.made()
	must(ctx != nil, "the context is nil")
	return c.exchange(ctx, "exchange", p, n, each)
}

func (c *Conn) exchange(ctx context.Context, op string, p []byte, n int, each func(i int, v resp.Value) error) error {
	// A cancellation must break the connection: replies still to come would be
	// taken for those of later commands.
	stop := context.AfterFunc(ctx, func() { c.end(op, context.Cause(ctx), true) })
	defer stop()
	begun := time.Now()
	if err := c.Send(p); err != nil && !c.isOpening() {
		return err
	}
	for i := range n {
		v, err := c.await()
		if err != nil {
			return err
		}
		if spent := time.Since(begun); i == 0 && (c.roundTrip == 0 || spent < c.roundTrip) {
			c.roundTrip = spent
		}
		if err := unasked(v); err != nil {
			return c.fail(op, err)
		}
		if err := each(i, v); err != nil {
			return c.fail(op, err)
		}
	}
	if c.reader.Buffered() > 0 {
		return c.fail(op, fmt.Errorf("%w: surplus reply", ErrProtocol))
	}
	if err := c.awaitWriter(); err != nil {
		return err
	}
	if !stop() && ctx.Err() != nil {
		// ctx ended with the last reply, and is breaking the connection.
		return c.fail(op, context.Cause(ctx))
	}
	return nil
}

// awaitWriter waits until the writer has nothing left. When all replies have
// come, it may not yet have returned from its Write, and Poller.Add would
// refuse the connection. The error is the one that broke the connection; a
// failed write while opening is reported later.
func (c *Conn) awaitWriter() error {
	for c.output.pending.Load() != 0 && !c.isUnsent() {
		select {
		case <-c.output.written:
		case <-c.done:
			return c.Err()
		}
	}
	return nil
}

// await waits for the following reply.
func (c *Conn) await() (resp.Value, error) {
	for {
		v, ok, err := c.Next()
		if ok || err != nil {
			return v, err
		}
		if err := c.Fill(); err != nil {
			return resp.Value{}, err
		}
	}
}

func unasked(v resp.Value) error {
	if v.Type() == resp.Push {
		return fmt.Errorf("%w: push that was not asked for", ErrProtocol)
	}
	if _, ok := v.Attributes(); ok {
		return fmt.Errorf("%w: attributes that were not asked for", ErrProtocol)
	}
	return nil
}
