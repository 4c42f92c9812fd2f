package faults

import (
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/proof/history"
)

// A claim is what a key says that some holder has.
type claim struct {
	digest string    // of its token, or why there can be no such holder
	ends   time.Time // before this its TTL cannot have ended it
}

// What keys of locks are, by the end of their names.
const (
	readersEnd = ":redlock:readers" // readers and the end of each one's time
	permitsEnd = ":redlock:permits" // numbers of permits, with the end of the last permit of each
	turnEnd    = ":redlock:turn"    // which waiter has the lock
	leasesPart = ":redlock:queue:"  // a caller that waits
)

// lives are keys of locks that no holder has, and that end by themselves: the
// longest that each lives after it was last set.
var lives = map[string]time.Duration{
	":redlock:mark":   300 * time.Millisecond,
	":redlock:wanted": 2 * time.Second,
	":redlock:queue":  time.Minute + time.Second,
	":redlock:ticket": time.Minute + time.Second,
}

// claims returns the claims of a key. In a rest no caller waits.
func claims(side *redistest.Side, key string, maxTTL time.Duration) []claim {
	if ofNode(key) {
		return nil
	}
	if strings.Contains(key, leasesPart) {
		return []claim{{"a caller waits", earliestEnd(side, key)}}
	}
	// Such a set outlives each of its members by a second.
	if strings.HasSuffix(key, readersEnd) {
		return append(readers(side, key), tooLong(side, key, maxTTL+time.Second)...)
	}
	if strings.HasSuffix(key, permitsEnd) {
		return tooLong(side, key, maxTTL+time.Second)
	}
	for end, life := range lives {
		if strings.HasSuffix(key, end) {
			return tooLong(side, key, life)
		}
	}
	value, err := side.Do("GET", key)
	text, _ := value.(string)
	if err != nil { // it is no key of a lock
		return []claim{{"cannot be read", earliestEnd(side, key)}}
	}
	if text == "" {
		return nil // it ended meanwhile
	}
	if lock, ok := strings.CutSuffix(key, turnEnd); ok {
		if there, err := side.Do("EXISTS", lock); err != nil || there == int64(1) {
			return nil
		}
		return []claim{{"without the lock", earliestEnd(side, key)}}
	}
	return []claim{{digestOf(text), earliestEnd(side, key)}}
}

// digestOf returns the digest of the token in a key's value, which may have the
// owner's name behind it.
func digestOf(value string) string {
	token, _, _ := strings.Cut(value, ":")
	digits := history.Digest([]byte(token))
	return string(digits[:])
}

// readers returns those whose time is not over.
func readers(side *redistest.Side, key string) (all []claim) {
	reply, err := side.Do("TIME")
	clock, _ := reply.([]any)
	if err != nil || len(clock) != 2 {
		return nil
	}
	seconds, _ := clock[0].(string)
	now, _ := strconv.ParseInt(seconds, 10, 64)
	reply, err = side.Do("ZRANGEBYSCORE", key, strconv.FormatInt((now+1)*1000, 10), "+inf", "WITHSCORES")
	if err != nil {
		return []claim{{"cannot be read", earliestEnd(side, key)}}
	}
	return readersOf(reply, now*1000, time.Now())
}

// readersOf reads members with their scores, which are ends in ms by a clock
// that shows up to a second more than now.
func readersOf(reply any, now int64, at time.Time) (all []claim) {
	list, _ := reply.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		value, _ := list[i].(string)
		score, _ := list[i+1].(string)
		ends, _ := strconv.ParseInt(score, 10, 64)
		left := max(ends-now-1000, 0)
		all = append(all, claim{digestOf(value), at.Add(time.Duration(left-left/50) * time.Millisecond)})
	}
	return all
}

// tooLong returns a claim if a key lives for longer than it should.
func tooLong(side *redistest.Side, key string, life time.Duration) []claim {
	reply, err := side.Do("PTTL", key)
	left, _ := reply.(int64)
	// A clock that was set back adds to it.
	if err != nil || left >= 0 && time.Duration(left)*time.Millisecond <= life+life/50+3*mostBack || left == -2 {
		return nil
	}
	return []claim{{"lives too long", time.Now().Add(time.Duration(left) * time.Millisecond)}}
}

// ofNode reports whether a key belongs to the node and not to a holder: what it
// knows of its deployment, its record of fencing numbers, and the last number
// of each resource.
func ofNode(key string) bool {
	name := strings.TrimPrefix(key, prefix)
	return strings.HasPrefix(name, "redlock:seal") || name == "redlock:opening" || strings.HasSuffix(name, ":fence")
}
