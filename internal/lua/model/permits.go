package model

import (
	"strconv"
	"strings"
	"time"
)

// mostPermits bounds the numbers in a record: a script looks at each permit.
const mostPermits = 1024

// A Permit is the arguments of acquire_permit.lua.
type Permit struct {
	Key, Record, Mark string
	Value             string
	TTL               time.Duration
	Permits, Number   int
	Names             string        // what the keys of all permits begin with
	Waits             time.Duration // for how long the mark stands; 0: no mark
}

// AcquirePermit is acquire_permit.lua, at the given time by the node's clock.
// free has the numbers that it returns with a refusal. ok is false if the
// record holds something else.
func AcquirePermit(db Keys[string, string], p Permit, now time.Time) (granted bool, free []int, ok bool) {
	least, most, ok := recordOf(db, p.Record, now)
	if !ok {
		return false, nil, false
	}
	least, most = min(least, p.Permits), max(most, p.Permits)
	taken := func() (n int) {
		for i := range most {
			if _, there := db.Get(p.Names + strconv.Itoa(i)); there {
				n++
			}
		}
		return n
	}
	_, held := db.Get(p.Key)
	if p.Number < least && !held && (least == most || taken() < least) {
		db.Set(p.Key, p.Value, p.TTL)
		recordPermits(db, p.Record, p.Permits, p.TTL, now)
		return true, nil, true
	}
	if left, _ := db.TTL(p.Mark); p.Waits > 0 && left >= p.Waits*3/4 {
		return false, nil, true
	}
	if taken() < least {
		for i := p.Number + 1; i <= p.Number+least && len(free) < 8; i++ {
			if _, there := db.Get(p.Names + strconv.Itoa(i%least)); !there {
				free = append(free, i%least)
			}
		}
	}
	if len(free) == 0 && p.Waits > 0 {
		db.Set(p.Mark, "", p.Waits)
	}
	return false, free, true
}

// recordOf returns the least and the most of the numbers in a record that
// count; without any, least is above and most below all numbers. ok is false if
// it holds something else. Here it has the form of a set of readers: see
// readersOf.
func recordOf(db Keys[string, string], record string, now time.Time) (least, most int, ok bool) {
	least = mostPermits + 1
	for number, ends := range readersOf(db, record) {
		permits, err := strconv.Atoi(number)
		if err != nil || permits < 1 || permits > mostPermits || strconv.Itoa(permits) != number {
			return 0, 0, false
		}
		if ends > now.UnixMilli() {
			least, most = min(least, permits), max(most, permits)
		}
	}
	return least, most, true
}

// recordPermits moves the end of a number in a record, never back.
func recordPermits(db Keys[string, string], record string, permits int, ttl time.Duration, now time.Time) {
	all, number := readersOf(db, record), strconv.Itoa(permits)
	all[number] = max(all[number], now.Add(ttl).UnixMilli())
	write(db, record, all, ttl+setOutlives, now)
}

// FreePermits returns the text of a refusal.
func FreePermits(free []int) string {
	var all []string
	for _, n := range free {
		all = append(all, strconv.Itoa(n))
	}
	return "1 " + strings.Join(all, ",")
}

// ExtendPermit is extend_permit.lua.
func ExtendPermit(db Keys[string, string], key, record, value string, ttl, other time.Duration, permits int, now time.Time) int {
	if Extend(db, key, value, ttl, other) == 0 {
		return 0
	}
	left, _ := db.TTL(key)
	recordPermits(db, record, permits, max(left, ttl), now)
	return 1
}

// ReleaseMarked is release_marked.lua.
func ReleaseMarked(db Keys[string, string], key, mark, value string) int {
	if Release(db, key, value) == 0 {
		return 0
	}
	db.Delete(mark)
	return 1
}
