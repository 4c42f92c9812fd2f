// Package resource turns names of locks in other programs, of any length and
// with any bytes, into resources of package redlock.
package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Longest is the greatest length of a resource in bytes (R19).
const Longest = 1024

// longestPrefix leaves room for the hash of a name.
const longestPrefix = Longest - len(hashed) - 2*sha256.Size

const (
	hashed   = "sha256:"
	reserved = ":redlock:" // in the keys beside a lock
)

// CheckPrefix refuses a prefix that is not for Name. The error begins with the
// adapter's name.
func CheckPrefix(adapter, prefix string) error {
	switch {
	case len(prefix) > longestPrefix:
		return fmt.Errorf("%s: Prefix has %d bytes, more than %d", adapter, len(prefix), longestPrefix)
	case strings.Contains(prefix, reserved):
		return fmt.Errorf("%s: Prefix contains %q", adapter, reserved)
	}
	return nil
}

// Name returns the resource for a name: the prefix and the name, or, if package
// redlock refuses that, the prefix and the hash of the name. CheckPrefix must
// have accepted the prefix. Different names have different resources: a name
// that looks like a hash is hashed too.
func Name(prefix, name string) string {
	if resource := prefix + name; !strings.HasPrefix(name, hashed) && !refused(resource) {
		return resource
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + hashed + hex.EncodeToString(sum[:])
}

// refused reports whether a client refuses a resource, or one with
// Config.Fenced does.
func refused(resource string) bool {
	switch resource {
	case "redlock:seal":
		return true
	}
	return len(resource) > Longest || strings.HasSuffix(resource, ":fence") || strings.Contains(resource, reserved)
}
