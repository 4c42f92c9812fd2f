package pure

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// A Seal is what the key says: that the process with this run id was watched for so long, in a deployment with this
// MaxTTL. It is text, for those who look at it: "redlock-seal 1 run_id=… max_ttl_ms=10000 watched_ms=10105".
type Seal struct {
	Run             string
	MaxTTL, Watched time.Duration
}

const sealHead = "redlock-seal 1 run_id="

func (s Seal) String() string {
	return sealHead + s.Run + " max_ttl_ms=" + strconv.FormatInt(s.MaxTTL.Milliseconds(), 10) +
		" watched_ms=" + strconv.FormatInt(s.Watched.Milliseconds(), 10)
}

// errSeal is a value that is no seal, or one of a version that is not understood.
var errSeal = errors.New("not a seal")

// ParseSeal reads a seal, and nothing but what String writes.
func ParseSeal(text string) (Seal, error) {
	rest, ok := strings.CutPrefix(text, sealHead)
	run, rest, ok1 := strings.Cut(rest, " max_ttl_ms=")
	maxTTL, watched, ok2 := strings.Cut(rest, " watched_ms=")
	if !ok || !ok1 || !ok2 || run == "" || strings.ContainsAny(run, " \r\n") {
		return Seal{}, errSeal
	}
	m, err1 := parseMilliseconds(maxTTL)
	w, err2 := parseMilliseconds(watched)
	if err1 != nil || err2 != nil || m <= 0 || w <= 0 {
		return Seal{}, errSeal
	}
	return Seal{run, m, w}, nil
}

// parseMilliseconds reads a time that a time.Duration can hold with room to reckon: up to a hundred years.
func parseMilliseconds(digits string) (time.Duration, error) {
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n > uint64(LongestTTL.Milliseconds()) || digits[0] == '+' {
		return 0, errSeal
	}
	return time.Duration(n) * time.Millisecond, nil
}

// A Sighting is what a look at the key came to.
type Sighting struct {
	What Seen
	Seal Seal
}

type Seen uint8

const (
	Unreadable  Seen = iota // an error: unknown, not a fault
	SealAbsent              // no such key
	SealStrange             // something else is there
	SealSeen                // a seal, of whatever process
)
