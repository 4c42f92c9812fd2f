package redlock

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"sync"

	"github.com/redmux/redmux/internal/pure"
)

// A Token is the value of a lock's keys, new for each attempt (R3): 20 random
// bytes as 27 characters of base64url without padding. It is printable because
// clients in other languages decode the values that they read as text, and some
// fail on raw bytes.
//
// The token proves ownership to the nodes, and a client that knows it can
// release the lock, so only Reveal returns it as text: no other method and no
// verb of package fmt shows it (R27). It is not a fencing token: tokens have no
// order.
type Token [pure.TokenText]byte

// tokenBytes is how many random bytes a token encodes: 160 bits.
const tokenBytes = 20

// tokenText refuses texts whose last character encodes bits that no token has,
// so that each token has only one text.
var tokenText = base64.RawURLEncoding.Strict()

// Reveal returns the token's 27 characters, to pass them to another process,
// which parses them with ParseToken. They are secret: a client that knows them
// can release the lock.
func (t Token) Reveal() string { return string(t[:]) }

// ErrToken is returned for a text that is not a token. The error does not show
// the text (R27).
var ErrToken = errors.New("redlock: a token is 27 characters of base64url (A-Z, a-z, 0-9, - and _)")

// ParseToken is the inverse of Token.Reveal. The error is ErrToken.
func ParseToken(text string) (Token, error) {
	var token Token
	if len(text) != len(token) {
		return Token{}, ErrToken
	}
	// The decoder skips line breaks, so the number of bytes is checked too.
	var random [tokenBytes]byte
	if n, err := tokenText.Decode(random[:], []byte(text)); err != nil || n != len(random) {
		return Token{}, ErrToken
	}
	copy(token[:], text)
	return token, nil
}

// Fingerprint returns a hash of the token that may be shown. It identifies the
// holder in an Inspection, and serves no other purpose.
func (t Token) Fingerprint() string { return pure.Fingerprint(t[:]) }

// A veiled is a token as a Lock keeps it, combined with bytes that only this
// process has. Package fmt prints the unexported fields of a user's struct
// without calling their methods, and what a pointer in one leads to, one step
// far (R27). So what a user can keep has no secret by value in it, nor behind
// its first pointer.
type veiled [pure.TokenText]byte

// theVeil is what tokens are combined with.
var theVeil = func() (v [pure.TokenText]byte) {
	_, _ = rand.Read(v[:])
	return v
}()

func veil(t Token) (v veiled) {
	subtle.XORBytes(v[:], t[:], theVeil[:])
	return v
}

// unveil returns the token: the zero Token for that of the zero Lock, which
// would show the veil.
func (v *veiled) unveil() (t Token) {
	if *v == (veiled{}) {
		return t
	}
	subtle.XORBytes(t[:], v[:], theVeil[:])
	return t
}

// tokens draws random bytes from the system's cryptographic source, enough for
// two hundred tokens with one system call.
type tokens struct {
	mu   sync.Mutex // guards the following
	left int        // bytes of pool
	pool [200 * tokenBytes]byte
}

func (t *tokens) next() (token Token) {
	random := t.draw()
	tokenText.Encode(token[:], random[:])
	return token
}

// draw returns the random bytes of one token.
func (t *tokens) draw() (random [tokenBytes]byte) {
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
