package pure

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// A Seal is the value of the seal's key: the process with this run id was
// watched for so long, in a deployment with this MaxTTL. It is stored as text:
// "redlock-seal 1 run_id=… max_ttl_ms=10000 watched_ms=10105".
type Seal struct {
	Run             string
	MaxTTL, Watched time.Duration
}

const sealHead = "redlock-seal 1 run_id="

// String returns the value of the key.
func (s Seal) String() string {
	return sealHead + s.Run + " max_ttl_ms=" + strconv.FormatInt(s.MaxTTL.Milliseconds(), 10) +
		" watched_ms=" + strconv.FormatInt(s.Watched.Milliseconds(), 10)
}

// errSeal is returned for a value that is not a seal, or is of an unknown
// version.
var errSeal = errors.New("not a seal")

// ParseSeal reads a seal. It accepts only what String returns.
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

// parseMilliseconds reads a time of up to a hundred years, which leaves room
// for sums in a time.Duration.
func parseMilliseconds(digits string) (time.Duration, error) {
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n > uint64(LongestTTL.Milliseconds()) || digits[0] == '+' {
		return 0, errSeal
	}
	return time.Duration(n) * time.Millisecond, nil
}

// A Sighting is the result of a look at the seal's key.
type Sighting struct {
	What Seen
	Seal Seal
}

// Seen is what a look at the seal's key found.
type Seen uint8

// What a look can find.
const (
	Unreadable  Seen = iota // an error: unknown, not a fault
	SealAbsent              // no such key
	SealStrange             // the key holds something else
	SealSeen                // a seal, of this process or another
)
