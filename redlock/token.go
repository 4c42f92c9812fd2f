package redlock

import (
	"errors"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock/internal/wire"
)

// A Token is the value of a lock's keys, new for each attempt (R3): 27
// characters of base64url. A client that knows it can release the lock, so only
// Reveal returns it as text (R27). It is not a fencing number: tokens have no
// order.
type Token [pure.TokenText]byte

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
	var random [wire.TokenBytes]byte
	if n, err := wire.TokenEncoding.Decode(random[:], []byte(text)); err != nil || n != len(random) {
		return Token{}, ErrToken
	}
	copy(token[:], text)
	return token, nil
}

// Fingerprint returns a hash of the token that may be shown. It identifies the
// holder in an Inspection, and serves no other purpose.
func (t Token) Fingerprint() string { return pure.Fingerprint(t[:]) }
