package wire

import (
	"time"

	"github.com/redmux/redmux/multiplex"
)

// Commands about the one key of a resource.

// Set appends SET key token NX PX ttl (R2).
func (e *Encoder) Set(dst []byte, resource string, token *Veiled, ttl time.Duration) multiplex.Encoded {
	dst = append(dst, "*6\r\n$3\r\nSET\r\n"...)
	from := len(dst)
	dst = e.Key(dst, resource)
	key := multiplex.Part{From: from, To: len(dst)}
	dst = e.Value(dst, token)
	dst = append(dst, "$2\r\nNX\r\n$2\r\nPX\r\n"...)
	return multiplex.Encoded{Bytes: Milliseconds(dst, ttl), Key: key}
}

// Release appends the release of one lock.
func (e *Encoder) Release(dst []byte, resource string, token *Veiled) multiplex.Encoded {
	return e.one(dst, &Release, resource, token)
}

// Extend appends the extension of one lock. other is the TTL for a key without
// one.
func (e *Encoder) Extend(dst []byte, resource string, token *Veiled, ttl, other time.Duration) multiplex.Encoded {
	return e.one(dst, &Extend, resource, token, ttl, other)
}

// Heal is Extend for a hold with Heal: it sets missing keys again.
func (e *Encoder) Heal(dst []byte, resource string, token *Veiled, ttl, other time.Duration) multiplex.Encoded {
	return e.one(dst, &Heal, resource, token, ttl, other)
}

// Shorten appends the command to shorten the rest of a lock's key to the given
// time.
func (e *Encoder) Shorten(dst []byte, resource string, token *Veiled, rest time.Duration) multiplex.Encoded {
	return e.one(dst, &Shorten, resource, token, rest)
}

// one appends a script with the key of one resource, a token and times.
func (e *Encoder) one(dst []byte, s *Script, resource string, token *Veiled, times ...time.Duration) multiplex.Encoded {
	dst = append(dst, s.head...)
	from := len(dst)
	dst = e.Key(dst, resource)
	key := multiplex.Part{From: from, To: len(dst)}
	dst = e.Value(dst, token)
	for _, t := range times {
		dst = Milliseconds(dst, t)
	}
	return multiplex.Encoded{Bytes: dst, Key: key}
}

// Several appends a script with the keys of several resources, a token and
// times.
func (e *Encoder) Several(dst []byte, s *Script, resources []string, token *Veiled, times ...time.Duration) multiplex.Encoded {
	dst = s.Call(dst, len(resources), 4+len(resources)+len(times))
	from := len(dst)
	for _, name := range resources {
		dst = e.Key(dst, name)
	}
	keys := multiplex.Part{From: from, To: len(dst), Keys: len(resources)}
	dst = e.Value(dst, token)
	for _, t := range times {
		dst = Milliseconds(dst, t)
	}
	return multiplex.Encoded{Bytes: dst, Key: keys}
}

// appendReleaseMany appends the head of the release of n locks. Their keys must
// follow, and then their tokens.
func appendReleaseMany(dst []byte, n int) []byte {
	return ReleaseMany.Call(dst, n, 3+2*n)
}

// appendExtendMany appends the head of the extension of n locks. Their keys
// must follow, and then the token and the two TTLs of each.
func appendExtendMany(dst []byte, n int) []byte {
	return ExtendMany.Call(dst, n, 3+4*n)
}

// MergedRelease and MergedExtension merge commands of the same flush.
var (
	MergedRelease   = mergerOf(appendReleaseMany)
	MergedExtension = mergerOf(appendExtendMany)
)

// mergerOf returns a Merger into the script call begun by the given function.
func mergerOf(appendHead func(dst []byte, n int) []byte) *multiplex.Merger {
	return &multiplex.Merger{Kind: multiplex.Kind{Judge: judgeOneOfMany, Script: true}, AppendHead: appendHead}
}
