// Package resource makes resources for package redlock of the names that other programs give to what they lock: of any
// length, any bytes.
package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Longest is how many bytes a resource may have (R19).
const Longest = 1024

// LongestPrefix leaves room for the hash of a name.
const LongestPrefix = Longest - len(hashed) - 2*sha256.Size

const hashed = "sha256:"

// Name is the resource for a name: the prefix, which must not be longer than LongestPrefix, and the name itself, or, where
// that would be too long, its hash. Different names have different resources: a name that looks like a hash is hashed too.
func Name(prefix, name string) string {
	if len(prefix)+len(name) <= Longest && !strings.HasPrefix(name, hashed) {
		return prefix + name
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + hashed + hex.EncodeToString(sum[:])
}
