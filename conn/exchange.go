package conn

import (
	"context"
	"fmt"
	"time"

	"github.com/redmux/redmux/resp"
)

// Exchange writes p, which holds n commands, waits for their n replies and gives
// each to each. It may be called only while nothing else is in flight.
//
// A reply with attributes, a push, and a byte that follows the last reply were not
// asked for; they break the connection (R16), as do an error of each and the end
// of ctx, whose cause is then in the error's chain. An error reply is a reply:
// what it means is for each to say. After an error the connection is broken.
func (c *Conn) Exchange(ctx context.Context, p []byte, n int, each func(i int, v resp.Value) error) error {
	return c.exchange(ctx, "exchange", p, n, each)
}

func (c *Conn) exchange(ctx context.Context, op string, p []byte, n int, each func(i int, v resp.Value) error) error {
	// Breaking is all that a cancellation can do: replies are on their way that nobody would match to a command.
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
	if !stop() && ctx.Err() != nil {
		return c.fail(op, context.Cause(ctx)) // it came with the last reply, and the connection is being broken
	}
	return nil
}

// await returns the following reply.
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
