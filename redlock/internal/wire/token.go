package wire

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"sync"

	"github.com/redmux/redmux/internal/pure"
)

// Characters are those of a token: they encode TokenBytes random bytes.
type Characters = [pure.TokenText]byte

// TokenBytes is how many random bytes a token encodes: 160 bits.
const TokenBytes = 20

// TokenEncoding refuses a last character with bits beyond the token's: each
// token has only one text.
var TokenEncoding = base64.RawURLEncoding.Strict()

// A Veiled is a token as a lock keeps it, combined with bytes known only to
// this process. Package fmt prints the unexported fields of a user's struct
// without calling their methods, and what a pointer in one leads to, one step
// far (R27). So what a user can keep has no secret by value in it, nor behind
// its first pointer.
type Veiled [pure.TokenText]byte

// theVeil is what tokens are combined with.
var theVeil = func() (v Characters) {
	_, _ = rand.Read(v[:])
	return v
}()

// Veil returns a token veiled.
func Veil(t Characters) (v Veiled) {
	subtle.XORBytes(v[:], t[:], theVeil[:])
	return v
}

// Unveil returns the token: a zero one for that of the zero Lock. Otherwise it
// would show the veil.
func (v *Veiled) Unveil() (t Characters) {
	if *v == (Veiled{}) {
		return t
	}
	subtle.XORBytes(t[:], v[:], theVeil[:])
	return t
}

// Tokens draws random bytes from the system's cryptographic source, enough for
// two hundred tokens with one system call.
type Tokens struct {
	mu   sync.Mutex // guards the following
	left int        // bytes of pool
	pool [200 * TokenBytes]byte
}

// Next returns a token never drawn before.
func (t *Tokens) Next() (token Characters) {
	random := t.draw()
	TokenEncoding.Encode(token[:], random[:])
	return token
}

// draw returns the random bytes of one token.
func (t *Tokens) draw() (random [TokenBytes]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left == 0 {
		// Read never fails: it ends the program instead.
		_, _ = rand.Read(t.pool[:])
		t.left = len(t.pool)
	}
	t.left -= len(random)
	fresh := t.pool[t.left : t.left+len(random)]
	copy(random[:], fresh)
	clear(fresh) // no token is used twice
	return random
}
