package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
	"github.com/redmux/redmux/redlock"
)

// A handover is what one process tells the next of a lock, as one word without spaces, which a shell calls its token:
//
//	redlock2.<token>.<TTL in ms>.<end of validity: wall clock>.<boot time>.<boot id>
//
// Who has it can release the lock, so it is a secret (R27). The end of the validity counts on the machine where it was written
// only, and until that is started anew: nobody else can compare the times.
type handover struct {
	token redlock.Token
	ttl   time.Duration
	until clock.Moment
	boot  string // in which until means something, "" if it does in none
}

// handoverOf is the lock as it is now.
func handoverOf(lock redlock.Lock, ttl time.Duration) handover {
	boot, _ := clock.BootID()
	return handover{token: lock.Token(), ttl: ttl, until: clock.Now().Add(lock.Validity()), boot: boot}
}

const handoverVersion = "redlock2"

// reveal is the word. It is not called String, since nothing may print it in passing.
func (h handover) reveal() string {
	return strings.Join([]string{
		handoverVersion, h.token.Reveal(), strconv.FormatInt(h.ttl.Milliseconds(), 10),
		strconv.FormatInt(h.until.Wall, 10), strconv.FormatInt(h.until.Boot, 10), h.boot,
	}, ".")
}

// Format hides the token from every verb.
func (h handover) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, h.token.String()) }

// errHandover does not show what was read (R27).
var errHandover = errors.New("that is no token as redlock acquire writes it")

// parseHandover reads what reveal wrote.
func parseHandover(text string) (h handover, err error) {
	parts := strings.SplitN(text, ".", 6) // a host's name may have dots
	if len(parts) != 6 || parts[0] != handoverVersion {
		return handover{}, errHandover
	}
	if h.token, err = redlock.ParseToken(parts[1]); err != nil {
		return handover{}, errHandover
	}
	ms, err := strconv.ParseInt(parts[2], 10, 48) // as many fit into a time.Duration
	if err != nil || ms <= 0 {
		return handover{}, errHandover
	}
	h.ttl = time.Duration(ms) * time.Millisecond
	if h.until, err = clock.Parse(parts[3] + " " + parts[4]); err != nil {
		return handover{}, errHandover
	}
	h.boot = parts[5]
	return h, nil
}

// here reports whether the end of the validity means something here and now.
func (h handover) here() bool {
	boot, ok := clock.BootID()
	return ok && boot == h.boot
}

// adopt makes it a lock of a client. Its validity is that of the clock that says least; elsewhere there is none (R4).
func (h handover) adopt(client *redlock.Client, resource string) (redlock.Lock, error) {
	var until time.Time
	if h.here() {
		until = time.Now().Add(h.until.Sub(clock.Now()))
	}
	return client.Adopt(resource, h.token, h.ttl, until)
}
