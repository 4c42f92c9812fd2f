package pure

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// What the value of a lock's keys says: the token; after a colon, the label of
// its client, if that has one; and after a blank, the lock's own label, if it
// has one. The token of a lock with a label of either kind begins with the time
// of its attempt.

const (
	// TokenText is the length of a token's text.
	TokenText = 27
	// OwnerSeparator stands between the token and the owner's label. No token
	// has it.
	OwnerSeparator = ':'
	// LabelSeparator stands before the lock's own label. No owner has it.
	LabelSeparator = ' '
	// LongestOwner and LongestLabel bound labels, in bytes.
	LongestOwner = 64
	LongestLabel = 64
	// LongestValue bounds a value.
	LongestValue = TokenText + 1 + LongestOwner + 1 + LongestLabel
	// LongestShown is how long a value may be that scripts show. They know it,
	// too. It is not less than LongestValue.
	LongestShown = 160
)

// Labels are those of a lock's holder.
type Labels struct {
	Owner string // of the client; "" without one
	Label string // of the lock; "" without one
}

// String returns the labels as they follow the token and the colon.
func (l Labels) String() string {
	if l.Label == "" {
		return l.Owner
	}
	return l.Owner + string(LabelSeparator) + l.Label
}

// A Value is what may be shown of a key's value, and the token.
type Value struct {
	Token string
	Labels
	Since time.Time // of the attempt, to the second; zero without labels
}

// Owner reports whether a label can be an owner's: 1 to 64 bytes of printable
// ASCII without blanks.
func Owner(label string) bool {
	return Label(label) && !strings.ContainsRune(label, LabelSeparator)
}

// Label reports whether a label can be a lock's: 1 to 64 bytes of printable
// ASCII, with blanks only in between.
func Label(label string) bool {
	for i := range len(label) {
		if label[i] < ' ' || label[i] > '~' {
			return false
		}
	}
	return len(label) > 0 && len(label) <= LongestLabel && label[0] != ' ' && label[len(label)-1] != ' '
}

// CheckOwner returns what is wrong with a setting's text, which may be "", as
// an owner. It does not show it (R27).
func CheckOwner(setting, text string) error {
	if text == "" || Owner(text) {
		return nil
	}
	return fmt.Errorf("%s has %d bytes: they must be 1 to %d, printable ASCII without blanks", setting, len(text), LongestOwner)
}

// CheckLabel is CheckOwner for a label.
func CheckLabel(setting, text string) error {
	if text == "" || Label(text) {
		return nil
	}
	return fmt.Errorf("%s has %d bytes: they must be 1 to %d, printable ASCII with blanks only in between", setting, len(text), LongestLabel)
}

// ParseValue reads the value of a lock's key. ok is false for what another
// program has set, and then no part of it reaches an error or a terminal.
func ParseValue(value string) (v Value, ok bool) {
	token, labels, labelled := strings.Cut(value, string(OwnerSeparator))
	if !hasDigits(token, TokenText, tokenDigits) {
		return Value{}, false
	}
	v.Token = token
	if !labelled {
		return v, true
	}
	var own bool
	v.Owner, v.Label, own = strings.Cut(labels, string(LabelSeparator))
	if v.Owner != "" && !Owner(v.Owner) || own != Label(v.Label) || labels == "" {
		return Value{}, false
	}
	v.Since = stampedAt(token)
	return v, true
}

// tokenDigits are the digits of base64url, by their values.
const tokenDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// stampDigits is how many digits of a token are its stamp: 36 bits of seconds
// last for two thousand years.
const stampDigits = 6

// Stamp writes a time to the beginning of a token's text, as seconds since
// 1970. Behind it are 124 random bits.
func Stamp(token []byte, at time.Time) {
	seconds := max(0, at.Unix())
	for i := stampDigits - 1; i >= 0; i-- {
		token[i] = tokenDigits[seconds%int64(len(tokenDigits))]
		seconds /= int64(len(tokenDigits))
	}
}

// stampedAt returns the time that Stamp wrote.
func stampedAt(token string) time.Time {
	seconds := int64(0)
	for i := range stampDigits {
		seconds = seconds*int64(len(tokenDigits)) + int64(strings.IndexByte(tokenDigits, token[i]))
	}
	return time.Unix(seconds, 0)
}

// Fingerprint returns the start of a value's SHA-256: enough to compare two
// values, and of no use to find a token, which has at least 124 random bits.
func Fingerprint(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:8])
}
