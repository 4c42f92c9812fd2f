// Package wire encodes what package redlock sends to the nodes: keys, values,
// commands and calls of scripts, and reads what they reply. It knows a prefix
// and an owner, and no client.
package wire

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"strconv"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// An Encoder encodes the keys and values of one client's locks. It does not
// change, and any goroutine may use it.
type Encoder struct {
	Prefix string // before every key
	Owner  string // the client's label, behind every token; "" if it has none
}

// A Value is what the keys of one lock hold, besides the client's label.
type Value struct {
	Token Veiled
	Label string // of the lock alone; "" without one
}

// NewToken gives the value a token for an attempt that begins now. It says when
// that was if a label follows.
func (e *Encoder) NewToken(v *Value, from *Tokens, now time.Time) {
	token := from.Next()
	if e.Owner != "" || v.Label != "" {
		pure.Stamp(token[:], now)
	}
	v.Token = Veil(token)
}

// The names of keys behind the prefix. Those without the infix Reserved are no
// resource's, and it is in no resource. So no key of one lock is that of
// another, whatever their kinds are.
const (
	// Reserved is in the name of every key of a lock beside those of its
	// resources and its fencing number.
	Reserved = ":redlock:"

	SealName   = "redlock:seal"
	RecordName = "redlock:fence"  // of the node's last fencing number
	TrialName  = "redlock:trial:" // and a random text: of a trial

	// The keys of a read/write lock besides the writer's.
	ReadersSuffix = Reserved + "readers"
	MarkSuffix    = Reserved + "mark" // of a writer that waits

	// The keys of a semaphore.
	PermitsSuffix = Reserved + "permits"
	WantedSuffix  = Reserved + "wanted" // the mark of callers that wait

	// The keys of a fair lock besides its own.
	QueueSuffix  = Reserved + "queue"
	LeasesSuffix = Reserved + "leases"
	TicketSuffix = Reserved + "ticket"
	TurnSuffix   = Reserved + "turn"
	WaiterSuffix = QueueSuffix + ":" // and the waiter's name

	// FenceSuffix makes the key of a resource's last number from its own.
	FenceSuffix = ":fence"
)

const (
	// LongestResource bounds the name of a resource (R19).
	LongestResource = 1024
	// LongestName is that of a key behind the prefix: a waiter's.
	LongestName = LongestResource + len(WaiterSuffix) + pure.TokenText
)

// Key appends prefix and resource as one bulk string.
func (e *Encoder) Key(dst []byte, resource string) []byte {
	return e.KeyWith(dst, resource, "")
}

// KeyWith appends prefix, resource and suffix as one bulk string: by its
// length: no byte of it can inject a command (R19).
func (e *Encoder) KeyWith(dst []byte, resource, suffix string) []byte {
	dst = append(dst, byte(resp.BulkString))
	dst = strconv.AppendInt(dst, int64(len(e.Prefix)+len(resource)+len(suffix)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, e.Prefix...)
	dst = append(dst, resource...)
	dst = append(dst, suffix...)
	return append(dst, "\r\n"...)
}

// Value appends the value of a lock's keys as one bulk string: see
// pure.ParseValue. Every command to set, compare or delete has the whole value.
func (e *Encoder) Value(dst []byte, v *Value) []byte {
	text := v.Token.Unveil()
	n := len(text)
	if e.Owner != "" || v.Label != "" {
		n += 1 + len(e.Owner)
	}
	if v.Label != "" {
		n += 1 + len(v.Label)
	}
	dst = append(dst, byte(resp.BulkString))
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, text[:]...)
	if n > len(text) {
		dst = append(dst, pure.OwnerSeparator)
		dst = append(dst, e.Owner...)
	}
	if v.Label != "" {
		dst = append(dst, pure.LabelSeparator)
		dst = append(dst, v.Label...)
	}
	return append(dst, "\r\n"...)
}

// Milliseconds appends a time as one bulk string. Times are relative only,
// since clocks differ.
func Milliseconds(dst []byte, d time.Duration) []byte {
	return Integer(dst, d.Milliseconds())
}

// Integer appends a number as one bulk string.
func Integer(dst []byte, n int64) []byte {
	var digits [20]byte
	return resp.AppendBulkString(dst, strconv.AppendInt(digits[:0], n, 10))
}

// Text appends a text as one bulk string.
func Text(dst []byte, text string) []byte { return resp.AppendBulkString(dst, text) }

// Commands about the one key of a resource.

// Set appends SET key token NX PX ttl (R2).
func (e *Encoder) Set(dst []byte, resource string, value *Value, ttl time.Duration) multiplex.Encoded {
	dst = append(dst, "*6\r\n$3\r\nSET\r\n"...)
	from := len(dst)
	dst = e.Key(dst, resource)
	key := multiplex.Part{From: from, To: len(dst)}
	dst = e.Value(dst, value)
	dst = append(dst, "$2\r\nNX\r\n$2\r\nPX\r\n"...)
	return multiplex.Encoded{Bytes: Milliseconds(dst, ttl), Key: key}
}

// Release appends the release of one lock.
func (e *Encoder) Release(dst []byte, resource string, value *Value) multiplex.Encoded {
	return e.one(dst, &Release, resource, value)
}

// Extend appends the extension of one lock. other is the TTL for a key without
// one.
func (e *Encoder) Extend(dst []byte, resource string, value *Value, ttl, other time.Duration) multiplex.Encoded {
	return e.one(dst, &Extend, resource, value, ttl, other)
}

// Heal is Extend for a hold with Heal: it sets missing keys again.
func (e *Encoder) Heal(dst []byte, resource string, value *Value, ttl, other time.Duration) multiplex.Encoded {
	return e.one(dst, &Heal, resource, value, ttl, other)
}

// Shorten appends the command to shorten the rest of a lock's key to the given
// time.
func (e *Encoder) Shorten(dst []byte, resource string, value *Value, rest time.Duration) multiplex.Encoded {
	return e.one(dst, &Shorten, resource, value, rest)
}

// one appends a script with the key of one resource, a value and times.
func (e *Encoder) one(dst []byte, s *Script, resource string, value *Value, times ...time.Duration) multiplex.Encoded {
	dst = append(dst, s.head...)
	from := len(dst)
	dst = e.Key(dst, resource)
	key := multiplex.Part{From: from, To: len(dst)}
	dst = e.Value(dst, value)
	for _, t := range times {
		dst = Milliseconds(dst, t)
	}
	return multiplex.Encoded{Bytes: dst, Key: key}
}

// Several appends a script with the keys of several resources, a value and
// times.
func (e *Encoder) Several(dst []byte, s *Script, resources []string, value *Value, times ...time.Duration) multiplex.Encoded {
	dst = s.Call(dst, len(resources), 4+len(resources)+len(times))
	from := len(dst)
	for _, name := range resources {
		dst = e.Key(dst, name)
	}
	keys := multiplex.Part{From: from, To: len(dst), Keys: len(resources)}
	dst = e.Value(dst, value)
	for _, t := range times {
		dst = Milliseconds(dst, t)
	}
	return multiplex.Encoded{Bytes: dst, Key: keys}
}

// MergedRelease and MergedExtension merge commands of the same flush: the keys
// of all locks, and then the token of each, with the two TTLs of an extension.
var (
	MergedRelease   = mergerOf(&ReleaseMany, 2)
	MergedExtension = mergerOf(&ExtendMany, 4)
)

// mergerOf returns a Merger into calls of a script with so many arguments for
// each lock.
func mergerOf(s *Script, arguments int) *multiplex.Merger {
	return &multiplex.Merger{Kind: multiplex.Kind{Judge: judgeOneOfMany, Script: true}, AppendHead: func(dst []byte, n int) []byte {
		return s.Call(dst, n, 3+arguments*n)
	}}
}

// Characters are those of a token: they encode TokenBytes random bytes.
type Characters = [pure.TokenText]byte

// TokenBytes is how many bytes a token encodes: 160 random bits, or 124 behind
// the second of the attempt (R3).
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
