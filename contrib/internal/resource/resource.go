// Package resource turns names of locks in other programs, of any length and
// with any bytes, into resources of package redlock.
package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Longest is the greatest length of a resource in bytes (R19).
const Longest = 1024

// LongestPrefix leaves room for the hash of a name.
const LongestPrefix = Longest - len(hashed) - 2*sha256.Size

const hashed = "sha256:"

// Name returns the resource for a name: the prefix and the name, or, if that
// would be too long, the prefix and the hash of the name. The prefix must not
// be longer than LongestPrefix. Different names have different resources: a
// name that looks like a hash is hashed too.
func Name(prefix, name string) string {
	if len(prefix)+len(name) <= Longest && !strings.HasPrefix(name, hashed) {
		return prefix + name
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + hashed + hex.EncodeToString(sum[:])
}
