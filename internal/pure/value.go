package pure

import (
	"crypto/sha256"
	"encoding/hex"
)

// What the value of a lock's keys says: the token, and after a colon the label
// of its owner, if it has one.

const (
	// TokenText is the length of a token's text.
	TokenText = 27
	// OwnerSeparator stands between the token and the owner's label. No token
	// has it.
	OwnerSeparator = ':'
	// LongestOwner bounds an owner's label, in bytes.
	LongestOwner = 64
)

// Owner reports whether a label can be an owner's: 1 to 64 bytes of printable
// ASCII without blanks.
func Owner(label string) bool {
	for i := range len(label) {
		if label[i] <= ' ' || label[i] > '~' {
			return false
		}
	}
	return len(label) > 0 && len(label) <= LongestOwner
}

// SplitValue splits the value of a key that has an owner. ok is false for any
// other value, such as a token alone, or what another program has set.
func SplitValue(value string) (token, owner string, ok bool) {
	if len(value) <= TokenText || value[TokenText] != OwnerSeparator {
		return "", "", false
	}
	token, owner = value[:TokenText], value[TokenText+1:]
	if !hasDigits(token, TokenText, tokenDigits) {
		return "", "", false
	}
	if !Owner(owner) {
		return "", "", false // and no part of it reaches an error or a terminal
	}
	return token, owner, true
}

// tokenDigits are the digits of base64url.
const tokenDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Fingerprint returns the start of a value's SHA-256: enough to compare two
// values, and of no use to find a token, which has 160 random bits.
func Fingerprint(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:8])
}
