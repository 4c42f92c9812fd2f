package model

import (
	"slices"
	"strconv"
	"time"
)

// The programs that look at locks of several holders. They change nothing.

// lookPage is how many holders a program returns.
const lookPage = 20

// longestNumber is the highest that a program returns.
const longestNumber = 1<<53 - 1

// A Sight is one that a program has seen: a reader, a permit that is taken, or
// a waiter.
type Sight struct {
	Number int64         // of a permit; the ticket of a waiter; or 0
	Rest   time.Duration // of its time; negative if that never ends
	Value  string
}

// LookReaders is look_readers.lua.
func LookReaders(db Keys[string, string], k RWKeys, skip int, now time.Time) (marked bool, size int, seen []Sight) {
	readers := readersOf(db, k.Readers)
	all := sorted(readers)
	slices.Reverse(all)
	for _, value := range page(all, skip) {
		if rest := readers[value] - now.UnixMilli(); rest > 0 {
			seen = append(seen, Sight{0, time.Duration(rest) * time.Millisecond, value})
		}
	}
	_, marked = db.Get(k.Mark)
	return marked, len(all), seen
}

// LookPermits is look_permits.lua. least is 0 if there is no record.
func LookPermits(db Keys[string, string], record, names string, first int, now time.Time) (least, most int, seen []Sight) {
	least, most, ok := recordOf(db, record, now)
	if !ok || most == 0 {
		return 0, 0, nil
	}
	for n := first; n < min(first+lookPage, most); n++ {
		if value, there := db.Get(names + strconv.Itoa(n)); there {
			seen = append(seen, Sight{int64(n), rest(db, names+strconv.Itoa(n)), value})
		}
	}
	return least, most, seen
}

// LookQueue is look_queue.lua.
func LookQueue(db Keys[string, string], q Question, skip int) (size int, seen []Sight) {
	all := queueOf(db, q.Queue)
	holder := ""
	if _, held := db.Get(q.Key); held {
		holder, _ = db.Get(q.Holder)
	}
	for _, o := range page(all, skip) {
		if _, lives := db.Get(q.Names + o.waiter); lives && o.waiter != holder {
			seen = append(seen, Sight{max(0, min(o.ticket, longestNumber)), rest(db, q.Names+o.waiter), o.waiter})
		}
	}
	return len(all), seen
}

// rest returns the rest of a key's time, negative if it has no end.
func rest(db Keys[string, string], key string) time.Duration {
	if left, _ := db.TTL(key); left > 0 {
		return left
	}
	return -1
}

func page[T any](all []T, skip int) []T {
	return all[min(skip, len(all)):min(skip+lookPage, len(all))]
}
