package bench

import (
	"crypto/rand"
	"sync"

	"github.com/redmux/redmux/redlock"
)

// Tokens hands out random tokens cut from a block: one read of the
// cryptographic source and one allocation for about two hundred tokens (R3). A
// token is a substring of an immutable string, because rueidis may still hold a
// command after its call failed, when pooled memory would already have another
// owner. For that reason redlock's own source, which overwrites what it
// returned, cannot be used here.
type Tokens struct {
	mu   sync.Mutex // guards the following
	rest string
}

const (
	tokenSize  = len(redlock.Token{})
	tokenBlock = 204 * tokenSize
)

// Next returns a token. It is safe for concurrent use.
func (t *Tokens) Next() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rest == "" {
		block := make([]byte, tokenBlock)
		rand.Read(block) // never fails: it ends the program where it cannot be served
		t.rest = string(block)
	}
	token := t.rest[:tokenSize]
	t.rest = t.rest[tokenSize:]
	return token
}
