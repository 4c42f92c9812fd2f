package redlock

import (
	"crypto/rand"
	"sync"
)

// A Token is the value of a lock's key: 20 random bytes, new for each attempt (R3). It proves ownership to the nodes and
// is not a fencing token: tokens have no order. Who knows it can release the lock, so it is not printed (R27).
type Token [20]byte

// Fingerprint is a hash of the token that may be shown: a holder finds itself by it in an Inspection. Who knows it can do
// nothing with it.
func (t Token) Fingerprint() string { return fingerprint(t[:]) }

// tokens draws tokens from the system's cryptographic source, many at a time: one system call serves two hundred.
type tokens struct {
	mu   sync.Mutex // guards the following
	pool [200 * len(Token{})]byte
	left int
}

func (t *tokens) next() (token Token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left == 0 {
		// It never fails: crypto/rand ends the program rather than return anything guessable.
		_, _ = rand.Read(t.pool[:])
		t.left = len(t.pool)
	}
	t.left -= len(token)
	fresh := t.pool[t.left : t.left+len(token)]
	copy(token[:], fresh)
	clear(fresh) // a token is given out once, and nowhere else
	return token
}
