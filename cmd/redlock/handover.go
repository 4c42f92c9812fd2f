package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock"
)

// A handover is what one process tells the next of a lock, as one word without
// spaces, which users know as the token:
//
//	redlock2.<token>.<TTL in ms>.<end of validity: wall clock>.<boot time>.<boot id>
//	redlock3.<token>.<TTL in ms>.<fencing number>.<wall clock>.<boot time>.<boot id>
//
// The second form is that of a lock with a fencing number. The token of a lock
// with an owner is followed by a colon and the label, in base64url.
//
// It can release the lock, so it is a secret (R27). The end of the validity is
// only usable on the machine that wrote it, until its next restart: no other
// can compare the times.
type handover struct {
	token redlock.Token
	ttl   time.Duration
	fence uint64 // 0 if the lock has none
	until clock.Moment
	boot  string // the run of the machine that until belongs to, "" if unknown
	owner string // of the client that was granted the lock, "" if it has none
}

// handoverOf returns the handover of a lock as it is now. fence is its number:
// an adopted lock does not know it.
func handoverOf(d *deployment, lock redlock.Lock, ttl time.Duration, fence uint64) handover {
	boot, _ := clock.BootID()
	until := clock.Now().Add(lock.Validity())
	return handover{token: lock.Token(), owner: d.Owner, ttl: ttl, fence: fence, until: until, boot: boot}
}

const handoverVersion, fencedVersion = "redlock2", "redlock3"

// reveal returns the word. It is not called String, so that nothing prints it
// by accident.
func (h handover) reveal() string {
	token := h.token.Reveal()
	if h.owner != "" {
		token += ":" + base64.RawURLEncoding.EncodeToString([]byte(h.owner))
	}
	parts := []string{handoverVersion, token, strconv.FormatInt(h.ttl.Milliseconds(), 10)}
	if h.fence != 0 {
		parts[0] = fencedVersion
		parts = append(parts, strconv.FormatUint(h.fence, 10))
	}
	return strings.Join(append(parts, strconv.FormatInt(h.until.Wall, 10), strconv.FormatInt(h.until.Boot, 10), h.boot), ".")
}

// Format hides the token from every verb.
func (h handover) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, fmt.Sprint(h.token)) }

// errHandover does not show what was read (R27).
var errHandover = errors.New("this is not a token that redlock acquire wrote")

// parseHandover reads what reveal wrote.
func parseHandover(text string) (h handover, err error) {
	version, _, _ := strings.Cut(text, ".")
	n := 6
	if version == fencedVersion {
		n = 7
	}
	parts := strings.SplitN(text, ".", n) // a host's name may have dots
	if len(parts) != n || version != handoverVersion && version != fencedVersion {
		return handover{}, errHandover
	}
	token, label, owned := strings.Cut(parts[1], ":")
	if h.token, err = redlock.ParseToken(token); err != nil {
		return handover{}, errHandover
	}
	owner, err := base64.RawURLEncoding.DecodeString(label)
	if h.owner = string(owner); err != nil || owned && !pure.Owner(h.owner) {
		return handover{}, errHandover
	}
	ms, err := strconv.ParseInt(parts[2], 10, 48) // more would not fit into a time.Duration
	if err != nil || ms <= 0 {
		return handover{}, errHandover
	}
	h.ttl = time.Duration(ms) * time.Millisecond
	if n == 7 {
		if h.fence, err = strconv.ParseUint(parts[3], 10, 53); err != nil || h.fence == 0 {
			return handover{}, errHandover
		}
		parts = append(parts[:3], parts[4:]...)
	}
	if h.until, err = clock.Parse(parts[3] + " " + parts[4]); err != nil {
		return handover{}, errHandover
	}
	h.boot = parts[5]
	return h, nil
}

// here reports whether the end of the validity can be compared with our clocks.
func (h handover) here() bool {
	boot, ok := clock.BootID()
	return ok && boot == h.boot
}

// adopt makes it a lock of a client with the same owner. Its validity is by the
// clock that gives less; on another machine it has none (R4).
func (h handover) adopt(client *redlock.Client, resource string) (redlock.Lock, error) {
	var until time.Time
	if h.here() {
		until = time.Now().Add(h.until.Sub(clock.Now()))
	}
	return client.Adopt(resource, h.token, h.ttl, until)
}
