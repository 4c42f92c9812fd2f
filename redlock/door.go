package redlock

import "context"

// Doors. A nil context, and a value that no function of this package has made,
// are mistakes of a program. They panic at the door, with a clear sentence, and
// not deep inside, where locks may already be held.

// must panics with a text unless ok.
func must(ok bool, text string) {
	if !ok {
		panic("redlock: " + text)
	}
}

const (
	noContext  = "the context is nil"
	noClient   = "a nil or zero Client: New and Open make one"
	noFunction = "the function is nil"
	noError    = "a nil error, which no function of this package returns"
	noHold     = "a nil or zero Hold: Client.Hold makes one"
)

// made is the door of methods without a context.
func (c *Client) made() { must(c != nil && c.config != nil, noClient) }

// called is the door of methods with one.
func (c *Client) called(ctx context.Context) {
	c.made()
	must(ctx != nil, noContext)
}

func (h *Hold) made() { must(h != nil && h.client != nil, noHold) }
