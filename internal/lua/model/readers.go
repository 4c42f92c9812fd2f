package model

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The programs of read/write locks. Real nodes keep the readers in a sorted
// set. Here they are a text, since Keys have no other values.

// setOutlives is for how long the set of readers outlives the last of them.
const setOutlives = time.Second

// RWKeys are the names of the keys of a read/write lock.
type RWKeys struct{ Writer, Readers, Mark string }

// readersOf returns the readers, and the ends of their times by the node's
// clock, in ms.
func readersOf(db Keys[string, string], key string) map[string]int64 {
	all := make(map[string]int64)
	text, _ := db.Get(key)
	for line := range strings.Lines(text) {
		ends, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		all[value], _ = strconv.ParseInt(ends, 10, 64)
	}
	return all
}

// write writes the readers, and deletes the key if there are none. The key then
// lives for the TTL at least, and if it had none, until its last reader leaves.
func write(db Keys[string, string], key string, all map[string]int64, ttl time.Duration, now time.Time) {
	if len(all) == 0 {
		db.Delete(key)
		return
	}
	left, _ := db.TTL(key)
	if left == 0 && ttl > 0 {
		last := slices.Max(slices.Collect(maps.Values(all)))
		left = time.UnixMilli(last).Sub(now) + setOutlives
	}
	var text strings.Builder
	for _, value := range slices.Sorted(maps.Keys(all)) {
		text.WriteString(strconv.FormatInt(all[value], 10) + " " + value + "\n")
	}
	db.Set(key, text.String(), max(left, ttl))
}

// purge removes the readers whose time is over.
func purge(all map[string]int64, now time.Time) {
	maps.DeleteFunc(all, func(_ string, ends int64) bool { return ends <= now.UnixMilli() })
}

// Read is read.lua, at the given time by the node's clock. It returns 1, or -i
// if the i-th of the keys is in the way.
func Read(db Keys[string, string], k RWKeys, value string, ttl time.Duration, now time.Time) int {
	if _, there := db.Get(k.Writer); there {
		return -1
	}
	if _, there := db.Get(k.Mark); there {
		return -3
	}
	all := readersOf(db, k.Readers)
	purge(all, now)
	all[value] = now.Add(ttl).UnixMilli()
	write(db, k.Readers, all, ttl+setOutlives, now)
	return 1
}

// Write is write.lua. It returns 1, or -i if the i-th of the keys is in the
// way, and of several readers the one that is in for the longest time.
func Write(db Keys[string, string], k RWKeys, value string, ttl time.Duration, own string, mark time.Duration, now time.Time) (n int, reader string) {
	if _, there := db.Get(k.Writer); there {
		return -1, ""
	}
	all := readersOf(db, k.Readers)
	n = len(all)
	purge(all, now)
	for _, reader := range slices.Backward(sorted(all)) {
		if reader == own {
			continue
		}
		if left, lives := db.TTL(k.Mark); mark > 0 && (!lives || left < mark*3/4) {
			db.Set(k.Mark, value, mark)
		}
		return -2, reader
	}
	db.Set(k.Writer, value, ttl)
	if len(all) < n {
		write(db, k.Readers, all, 0, now)
	}
	return 1, ""
}

// sorted returns the readers as a sorted set has them.
func sorted(all map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[a], all[b]), strings.Compare(a, b))
	})
}

// Downgrade is downgrade.lua.
func Downgrade(db Keys[string, string], k RWKeys, was, value string, ttl time.Duration, now time.Time) int {
	if !holds(db, k.Writer, was) {
		return 0
	}
	all := readersOf(db, k.Readers)
	purge(all, now)
	all[value] = now.Add(ttl).UnixMilli()
	write(db, k.Readers, all, ttl+setOutlives, now)
	db.Delete(k.Writer)
	db.Delete(k.Mark)
	return 1
}

// ExtendRead is extend_read.lua.
func ExtendRead(db Keys[string, string], readers, value string, ttl time.Duration, now time.Time) int {
	all := readersOf(db, readers)
	if ends, in := all[value]; !in || ends <= now.UnixMilli() {
		return 0
	}
	if until := now.Add(ttl).UnixMilli(); all[value] < until {
		purge(all, now)
		all[value] = until
	}
	write(db, readers, all, ttl+setOutlives, now)
	return 1
}

// ReleaseRead is release_read.lua.
func ReleaseRead(db Keys[string, string], readers, writer, value, was string, now time.Time) (n int) {
	all := readersOf(db, readers)
	if ends, in := all[value]; in {
		delete(all, value)
		write(db, readers, all, 0, now)
		if ends > now.UnixMilli() {
			n = 1
		}
	}
	if was != "" && Release(db, writer, was) == 1 {
		n = 1
	}
	return n
}
