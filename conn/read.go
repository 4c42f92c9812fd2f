package conn

import (
	"io"

	"github.com/redmux/redmux/resp"
)

// maxEmptyReads bounds the reads of a net.Conn that returns neither bytes nor
// an error.
const maxEmptyReads = 100

// Fill waits for bytes and reads once. It ends all views that Next returned.
// Its error, an *Error, is what broke the connection. Only the owner of the
// read side may call it. Over TCP and unix sockets it allocates nothing once
// the decoder's buffer has grown.
func (c *Conn) Fill() error {
	c.made()
	if err := c.readErr; err != nil {
		return c.fail("read", err)
	}
	space := c.reader.Space()
	for range maxEmptyReads {
		n, err := c.link.Read(space)
		if n > 0 {
			c.noteRead(n)
			c.received(space[:n])
			c.readErr = err // TLS reports the last bytes and the end in one call
			return nil
		}
		if err != nil {
			return c.fail("read", err)
		}
	}
	return c.fail("read", io.ErrNoProgress)
}

// received commits the bytes that were read into the beginning of the decoder's
// Space.
func (c *Conn) received(p []byte) {
	c.nfirst += copy(c.first[c.nfirst:], p)
	c.reader.Commit(len(p))
}

// Next returns the following value that was received, without waiting. If ok is
// false and err is nil, Fill must be called first. The value is valid until the
// following call of Next or Fill. Bytes other than RESP break the connection
// (R16); Next still returns the values received before. Only the owner of the
// read side may call it.
func (c *Conn) Next() (v resp.Value, ok bool, err error) {
	c.made()
	c.begun = c.reader.Offset()
	v, ok, err = c.reader.Next()
	if err != nil {
		return resp.Value{}, false, c.parseFailed(err)
	}
	return v, ok, nil
}

func (c *Conn) parseFailed(err error) error {
	if c.isOpening() {
		err = &PeerError{Speaks: speaks(c.first[:c.nfirst]), Err: err}
	}
	return c.fail("parse", err)
}
