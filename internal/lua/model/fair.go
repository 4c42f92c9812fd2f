package model

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// A Question is the arguments of ask_fair.lua.
type Question struct {
	Key, Queue, Highest, Holder, Lease string
	Value                              string
	TTL                                time.Duration
	Waiter                             string
	Ticket                             int64
	Mode                               string // new, keep or try
	Leases                             time.Duration
	Names                              string // of all leases begin with it
}

// queueOutlives is for how long a queue outlives the leases of its waiters.
const queueOutlives = time.Minute

// A queued waiter. On real nodes the queue is a sorted set; here it is a text.
type queued struct {
	ticket int64
	waiter string
}

func queueOf(db Keys[string, string], key string) (all []queued) {
	text, _ := db.Get(key)
	for line := range strings.Lines(text) {
		ticket, waiter, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, _ := strconv.ParseInt(ticket, 10, 64)
		all = append(all, queued{n, waiter})
	}
	return all
}

func writeQueue(db Keys[string, string], key string, all []queued, ttl time.Duration) {
	if len(all) == 0 {
		db.Delete(key)
		return
	}
	slices.SortFunc(all, func(a, b queued) int {
		return cmp.Or(cmp.Compare(a.ticket, b.ticket), strings.Compare(a.waiter, b.waiter))
	})
	var text strings.Builder
	for _, q := range all {
		text.WriteString(strconv.FormatInt(q.ticket, 10) + " " + q.waiter + "\n")
	}
	if ttl == 0 {
		ttl, _ = db.TTL(key)
	}
	db.Set(key, text.String(), ttl)
}

// AskFair is ask_fair.lua. It returns 1, or the text of the refusal.
func AskFair(db Keys[string, string], q Question) (granted bool, text string) {
	all := queueOf(db, q.Queue)
	at := slices.IndexFunc(all, func(o queued) bool { return o.waiter == q.Waiter })
	if q.Mode != "try" {
		was, _ := db.Get(q.Highest)
		highest, _ := strconv.ParseInt(was, 10, 64)
		if highest > pure.MostNumber {
			highest = 0
			if len(all) > 0 {
				highest = all[len(all)-1].ticket
			}
		}
		if q.Mode == "new" && at < 0 && q.Ticket <= highest {
			return false, "3 " + strconv.FormatInt(highest, 10)
		}
		if at < 0 {
			all = append(all, queued{q.Ticket, q.Waiter})
			writeQueue(db, q.Queue, all, q.Leases+queueOutlives)
			at = slices.IndexFunc(all, func(o queued) bool { return o.waiter == q.Waiter })
			q.renew(db, highest)
		} else if left, lives := db.TTL(q.Lease); !lives || left < q.Leases*3/4 {
			q.renew(db, highest)
		}
	} else {
		at = len(all)
	}
	value, held := db.Get(q.Key)
	holder := ""
	if held {
		holder, _ = db.Get(q.Holder)
	}
	for at > 0 {
		at--
		other := all[at].waiter
		if held && other == holder {
			continue
		}
		if _, lives := db.Get(q.Names + other); lives {
			place := at + 2
			if held && slices.ContainsFunc(all[:at], func(o queued) bool { return o.waiter == holder }) {
				place--
			}
			if len(other) > 100 {
				other = ""
			}
			return false, "2 " + strconv.Itoa(place) + " " + other
		}
		all = slices.Delete(all, at, at+1)
		writeQueue(db, q.Queue, all, 0)
	}
	if held {
		if len(value) > 100 {
			value = ""
		}
		return false, "1 " + value
	}
	db.Set(q.Key, q.Value, q.TTL)
	db.Set(q.Holder, q.Waiter, max(q.TTL, q.Leases))
	return true, ""
}

// renew renews the lease of the waiter.
func (q *Question) renew(db Keys[string, string], highest int64) {
	db.Set(q.Lease, "", q.Leases)
	db.Expire(q.Queue, q.Leases+queueOutlives)
	db.Set(q.Highest, strconv.FormatInt(max(highest, q.Ticket), 10), q.Leases+queueOutlives)
}

// ReleaseFair is release_fair.lua.
func ReleaseFair(db Keys[string, string], key, queue, holder, lease, value, waiter string, leaves bool) (n int) {
	if Release(db, key, value) == 1 {
		db.Delete(holder)
		n = 1
	}
	if leaves {
		all := queueOf(db, queue)
		left := slices.DeleteFunc(slices.Clone(all), func(q queued) bool { return q.waiter == waiter })
		if len(left) < len(all) {
			writeQueue(db, queue, left, 0)
		}
		db.Delete(lease)
	}
	return n
}
