package model

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// mostPermits bounds what a record may say: a script looks at each of them.
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

// AcquirePermit is acquire_permit.lua. free has the numbers that it returns
// with a refusal. ok is false if the record holds something else.
func AcquirePermit(db Keys[string, string], p Permit) (granted bool, free []int, ok bool) {
	least, most := p.Permits, p.Permits
	if text, there := db.Get(p.Record); there {
		a, b := recordOf(text)
		if a < 0 || b > mostPermits {
			return false, nil, false
		}
		least, most = min(least, a), max(most, b)
	}
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
		rest, _ := db.TTL(p.Record)
		db.Set(p.Record, fmt.Sprintf("%d %d", least, most), max(rest, p.TTL))
		return true, nil, true
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

// recordOf returns the two numbers of the record of permits, or -1 if it holds
// something else.
func recordOf(text string) (least, most int) {
	found := recordForm.FindStringSubmatch(text)
	if found == nil {
		return -1, -1
	}
	least, errA := strconv.Atoi(found[1])
	most, errB := strconv.Atoi(found[2])
	if errA != nil || errB != nil {
		return -1, -1
	}
	return least, most
}

var recordForm = regexp.MustCompile(`^([0-9]+) ([0-9]+)$`)

// FreePermits returns the text of a refusal.
func FreePermits(free []int) string {
	var all []string
	for _, n := range free {
		all = append(all, strconv.Itoa(n))
	}
	return "1 " + strings.Join(all, ",")
}

// ExtendPermit is extend_permit.lua.
func ExtendPermit(db Keys[string, string], key, record, value string, ttl time.Duration) int {
	if Extend(db, key, value, ttl) == 0 {
		return 0
	}
	if left, _ := db.TTL(record); left > 0 && left < ttl {
		db.Expire(record, ttl)
	}
	return 1
}

// ReleasePermit is release_permit.lua.
func ReleasePermit(db Keys[string, string], key, mark, value string) int {
	if Release(db, key, value) == 0 {
		return 0
	}
	db.Delete(mark)
	return 1
}
