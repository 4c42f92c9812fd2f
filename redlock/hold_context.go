package redlock

import "context"

// FromContext returns the hold whose context ctx is or derives from: that of the
// innermost Do or DoWith, or of Hold.Context. The function that Do runs finds
// its lock so: what is left of its validity, its token, and, by Hold.Err,
// whether the lock is still held, which the contexts that derive from Do's do
// not read from the clocks (see Hold.Context). Do releases the hold itself.
func FromContext(ctx context.Context) (*Hold, bool) {
	h, ok := ctx.Value(holdKey{}).(*Hold)
	return h, ok
}

// A holdKey asks a context for the innermost hold of one client; nil stands for
// any client.
type holdKey struct{ client *Client }

// answers reports whether a question to a context is one for this hold.
func (h *Hold) answers(key any) bool {
	k, ok := key.(holdKey)
	return ok && (k.client == nil || k.client == h.client)
}

// outer returns the hold of this client under which the owner of ctx works, or
// nil.
func (c *Client) outer(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{c}).(*Hold)
	return h
}
