package redlock

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/resp"
)

// Semaphores. Each permit is a lock of its own, with one key: so there are
// never more holders than permits. A majority that counted holders would admit
// more. A node that refuses a permit says which others are free, and the client
// asks for one of these.

// MaxPermits is the most permits that a semaphore may have.
const MaxPermits = 1024

// Semaphore returns the Locker of a semaphore: up to so many callers, 1 to
// MaxPermits, hold one of its permits at a time. A permit is a lock: it expires
// after its TTL, can be extended and held, and is lost as a lock is. Make the
// Locker once and keep it: it remembers which permit was free last.
//
// All clients must name the same number of permits. While they do not, no more
// are held than the highest of their numbers. A lower number stops new grants
// at once; a higher one takes effect when the last TTL that clients with the
// lower one asked for is over. See docs/guide.md.
//
// An attempt asks for the permit that was granted last, or, where callers wait,
// for one that this client has given back; and then, up to three times, for one
// that most nodes say is free.
//
// Callers that wait are told by the nodes when a permit is given back, and some
// of them try to get it: they are not served in turn. A permit whose holder has
// died is found within a second and a half of the end of its TTL. With two or
// more permits, a caller may hold several, and nothing keeps callers from
// waiting for each other.
//
// Calls return ErrResource if the name cannot be locked, or for another number
// of permits. Those have the keys name#0, name#1 and so on, which exclude plain
// locks on them. Permits have no fencing number.
func (c *Client) Semaphore(name string, permits int) Locker {
	f := form{kind: permit, key: queueKey{permit, name, permits}, names: []string{name}, text: name, permits: permits, last: new(atomic.Int32), gate: &gate{}}
	f.last.Store(-1)
	waits := f
	waits.mark = permitMark
	return Locker{client: c, name: name, try: &f, wait: &waits}
}

// permitMark is for how long the mark of a caller stands that waits for a
// permit. A refused attempt sets it anew only if less than three quarters of it
// are left. So after each attempt that much is left at least, and it must be
// more than the time to the caller's next one: fallbackMost, and half a second
// for pauses and for nodes that are slow.
const permitMark = (fallbackMost + 500*time.Millisecond) * 4 / 3

const (
	permitSeparator = "#"
	permitsSuffix   = reserved + "permits"
	wantedSuffix    = reserved + "wanted" // the mark of callers that wait
	permitKeys      = 3
)

func (f *form) checkPermits() error {
	if f.permits < 1 || f.permits > MaxPermits {
		return errtext.Wrap(fmt.Sprintf("redlock: a semaphore of %d permits: there must be 1 to %d", f.permits, MaxPermits), ErrResource)
	}
	return nil
}

// permitRounds is how many permits an attempt asks for, one after another,
// while nodes say that others are free.
const permitRounds = 4

// attemptPermit is an attempt to get any permit: the one that was granted last,
// and then one that is free by the word of most nodes. Each round has a new
// token (R3).
func (c *Client) attemptPermit(ctx context.Context, lock *Lock) error {
	var set [largeRoom]byte
	f := lock.form
	lock.number = int64(f.last.Load())
	if freed, ok := f.gate.take(); ok {
		lock.number = int64(freed)
	} else if lock.number < 0 {
		lock.number = rand.Int64N(int64(max(1, f.permits)))
	}
	for round := 1; ; round++ {
		err := c.claim(ctx, lock, set[:0])
		if err == nil {
			f.last.Store(int32(lock.number))
			return nil
		}
		held, ok := err.(*HeldError)
		if !ok || len(held.hint.free) == 0 || round == permitRounds {
			return err
		}
		lock.number = int64(held.hint.free[rand.IntN(len(held.hint.free))])
	}
}

// freePermits are numbers of permits that are free by the word of most nodes.
type freePermits []int

// appendFree appends the numbers in the text of a node, each of them once: a
// node that repeats one is still one node.
func appendFree(all []int, text []byte, permits int) []int {
	others := len(all)
	for number := range bytes.SplitSeq(text, []byte(",")) {
		n, err := strconv.Atoi(string(number))
		if err == nil && n >= 0 && n < permits && !slices.Contains(all[others:], n) {
			all = append(all, n)
		}
	}
	return all
}

// mostFree returns the numbers that most nodes named. all is changed.
func mostFree(all []int) (free freePermits) {
	slices.Sort(all)
	most := 0
	for len(all) > 0 {
		count := 1
		for count < len(all) && all[count] == all[0] {
			count++
		}
		if count > most {
			most, free = count, free[:0]
		}
		if count == most {
			free = append(free, all[0])
		}
		all = all[count:]
	}
	return free
}

func (l *Lock) claimPermit(dst []byte) multiplex.Encoded {
	c, f := l.client, l.form
	dst = appendScriptHead(dst, &acquirePermitScript, permitKeys, 3+permitKeys+6)
	dst = c.appendPermit(dst, l)
	dst = c.appendKeyWith(dst, l.resource, permitsSuffix)
	dst = c.appendKeyWith(dst, l.resource, wantedSuffix)
	dst = c.appendValue(dst, &l.token)
	dst = appendMilliseconds(dst, l.ttl)
	dst = appendInteger(dst, int64(f.permits))
	dst = appendInteger(dst, l.number)
	dst = c.appendKeyWith(dst, l.resource, permitSeparator)
	return multiplex.Encoded{Bytes: appendMilliseconds(dst, f.mark)}
}

// appendPermit appends the key of a permit.
func (c *Client) appendPermit(dst []byte, l *Lock) []byte {
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], l.number, 10)
	dst = append(dst, byte(resp.BulkString))
	dst = strconv.AppendInt(dst, int64(len(c.config.Prefix)+len(l.resource)+len(permitSeparator)+len(number)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, c.config.Prefix...)
	dst = append(dst, l.resource...)
	dst = append(dst, permitSeparator...)
	dst = append(dst, number...)
	return append(dst, "\r\n"...)
}

func (c *Client) appendExtendPermit(dst []byte, l *Lock, ttl, other time.Duration) multiplex.Encoded {
	dst = appendScriptHead(dst, &extendPermitScript, 2, 3+2+4)
	dst = c.appendPermit(dst, l)
	dst = c.appendKeyWith(dst, l.resource, permitsSuffix)
	dst = c.appendValue(dst, &l.token)
	dst = appendMilliseconds(appendMilliseconds(dst, ttl), other)
	return multiplex.Encoded{Bytes: appendInteger(dst, int64(l.form.permits))}
}
