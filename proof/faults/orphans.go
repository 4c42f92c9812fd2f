package faults

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/proof/history"
)

// A rest looks for keys that were left behind. All faults are healed and no
// attempt is made until every client is connected to every node, has its
// answers, and owes nothing. From then on a key without a holder is an orphan,
// unless it goes within a second.

const (
	// settleLook is the time between two looks at what has settled.
	settleLook = 5 * time.Millisecond
	// settleLooks bounds how long clients may take to come back, which is a
	// second as a rule. It is a number of looks, ten seconds' worth, so that
	// clients get more time if the machine leaves no time to this process.
	settleLooks = int(10 * time.Second / settleLook)
	// barredLooks is the same for clients whose password or rights a node
	// refused. After several refusals a client waits up to 30 s before it dials
	// again (R26).
	barredLooks = int(40 * time.Second / settleLook)
	// orphanAge is how old an orphan must be to be counted.
	orphanAge = time.Second
)

// rest makes a rest, to its end even if the run ends meanwhile: a run whose
// last faults keep a client away for long would otherwise never look after
// them.
func (r *run) rest() error {
	r.limiter.close()
	defer r.limiter.open()
	began := time.Now()
	defer r.order(order{Do: orderGo})
	if unsettled := r.settle(); len(unsettled) > 0 {
		r.results.unsettled(unsettled)
		return nil
	}
	return r.search(began)
}

// settle orders the processes to rest, or to ask every node once more if they
// rest already, and waits until all have settled. It returns what has not.
func (r *run) settle() (unsettled []string) {
	r.round++
	r.order(order{Do: orderRest, Round: r.round})
	late := 0 // looks in turn at something that is not there and was not barred
	for range barredLooks {
		if unsettled = r.unsettled(); len(unsettled) == 0 || late > settleLooks {
			break
		}
		late++
		if !slices.ContainsFunc(unsettled, func(u string) bool { return !strings.Contains(u, barred) }) {
			late = 0
		}
		time.Sleep(settleLook)
	}
	return unsettled
}

// A suspect is a key that belongs to no living hold.
type suspect struct {
	what string    // which one, on what node
	ends time.Time // before this its TTL cannot have ended it
}

// search looks for orphans when all have settled, in a rest that began at that
// time.
func (r *run) search(began time.Time) error {
	settled := time.Since(began)
	time.Sleep(orphanAge)
	if r.killedLately() {
		r.results.rested(settled, false, 0, nil) // what its process left may stand until its TTL ends
		return nil
	}
	keys, suspects, err := r.suspects()
	if err != nil {
		return err
	}
	// A look says nothing if it came so late that each key from before the rest
	// has expired.
	looked := time.Since(began) < r.options.MaxTTL
	var orphans []string
	if len(suspects) > 0 { // a hold that was lost meanwhile is being released
		time.Sleep(200 * time.Millisecond)
		// Then every node has answered what it was sent before, however busy it
		// is.
		if unsettled := r.settle(); len(unsettled) > 0 {
			r.results.unsettled(unsettled)
			return nil
		}
		_, again, err := r.suspects()
		if err != nil {
			return err
		}
		var unknown bool
		orphans, unknown = judgeSuspects(suspects, again, time.Now())
		looked = looked && !unknown
	}
	r.results.rested(settled, looked, keys, orphans)
	return nil
}

// judgeSuspects returns the suspects that are orphans: those that are still
// there. unknown reports that another may have been ended by its TTL and not by
// a release.
func judgeSuspects(first, again []suspect, now time.Time) (orphans []string, unknown bool) {
	for _, s := range first {
		switch {
		case slices.ContainsFunc(again, func(a suspect) bool { return a.what == s.what }):
			orphans = append(orphans, s.what)
		case !now.Before(s.ends):
			unknown = true
		}
	}
	return orphans, unknown
}

// unsettled names the processes and nodes that are not at rest.
func (r *run) unsettled() (all []string) {
	for _, p := range r.processes.all() {
		p.mu.Lock()
		state := p.resting
		p.mu.Unlock()
		switch {
		case state == nil || state.Round != r.round:
			all = append(all, fmt.Sprintf("process %d has not answered", p.name))
			continue
		case !state.Parked:
			all = append(all, fmt.Sprintf("process %d has callers that do not come to rest", p.name))
		}
		for i, n := range state.Nodes {
			if n != "" {
				all = append(all, fmt.Sprintf("process %d, node %d: %s", p.name, i, n))
			}
		}
	}
	return all
}

// suspects lists the keys that belong to no living hold, as "node 2: u:1:2:3
// (1a2b3c4d)", and counts all keys of locks. The names of these resources are
// made up here, and no secret.
func (r *run) suspects() (keys int, suspects []suspect, err error) {
	held := map[string]bool{}
	for _, p := range r.processes.all() {
		p.mu.Lock()
		if p.resting != nil {
			for _, digest := range p.resting.Held {
				held[digest] = true
			}
		}
		p.mu.Unlock()
	}
	for i, side := range r.fleet.sides {
		reply, err := side.Do("KEYS", prefix+"*")
		if err != nil {
			return 0, nil, fmt.Errorf("faults: node %d: %w", i, err)
		}
		names, _ := reply.([]any)
		for _, name := range names {
			key, _ := name.(string)
			for _, c := range claims(side, key, r.options.MaxTTL) {
				keys++
				if !held[c.digest] {
					suspects = append(suspects, suspect{fmt.Sprintf("node %d: %s (%s)", i, strings.TrimPrefix(key, prefix), c.digest), c.ends})
				}
			}
		}
	}
	return keys, suspects, nil
}

// earliestEnd returns the time before which a key cannot expire, even if the
// node's clock is fast.
func earliestEnd(side *redistest.Side, key string) time.Time {
	now := time.Now()
	reply, err := side.Do("PTTL", key)
	left, _ := reply.(int64)
	if err == nil && left == -1 {
		return now.Add(24 * time.Hour) // it has none
	}
	left = max(left, 0)
	return now.Add(time.Duration(left-left/50) * time.Millisecond)
}

// A claim is what a key says that some holder has.
type claim struct {
	digest string    // of its token, or why there can be no such holder
	ends   time.Time // before this its TTL cannot have ended it
}

// What keys of locks are, by the end of their names.
const (
	readersEnd = ":redlock:readers" // readers and the end of each one's time
	permitsEnd = ":redlock:permits" // permits and the end of each one's time, and how many there are
	turnEnd    = ":redlock:turn"    // which waiter has the lock
	waiterPart = ":redlock:queue:"  // a caller that waits
)

// lives are keys of locks that no holder has, and that end by themselves: the
// longest that each lives after it was last set.
var lives = map[string]time.Duration{
	":redlock:mark":   300 * time.Millisecond,
	":redlock:wanted": 2 * time.Second,
	":redlock:queue":  time.Minute + time.Second,
	":redlock:leases": time.Minute + time.Second,
	":redlock:ticket": time.Minute + time.Second,
}

// claims returns the claims of a key. In a rest no caller waits.
func claims(side *redistest.Side, key string, maxTTL time.Duration) []claim {
	if ofNode(key) {
		return nil
	}
	if strings.Contains(key, waiterPart) {
		return []claim{{"a caller waits", earliestEnd(side, key)}}
	}
	// Such a set outlives each of its members by a second.
	if strings.HasSuffix(key, readersEnd) {
		return append(readers(side, key), tooLong(side, key, maxTTL+time.Second)...)
	}
	if strings.HasSuffix(key, permitsEnd) {
		return append(held(side, key), tooLong(side, key, maxTTL+time.Second)...)
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
	now, ok := seconds(side)
	if !ok {
		return nil
	}
	reply, err := side.Do("ZRANGEBYSCORE", key, strconv.FormatInt((now+1)*1000, 10), "+inf", "WITHSCORES")
	if err != nil {
		return []claim{{"cannot be read", earliestEnd(side, key)}}
	}
	list, _ := reply.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		value, _ := list[i].(string)
		ends, _ := list[i+1].(string)
		all = append(all, claimUntil(value, ends, now))
	}
	return all
}

// held returns the permits whose time is not over.
func held(side *redistest.Side, key string) (all []claim) {
	now, ok := seconds(side)
	if !ok {
		return nil
	}
	reply, err := side.Do("HVALS", key)
	if err != nil {
		return []claim{{"cannot be read", earliestEnd(side, key)}}
	}
	list, _ := reply.([]any)
	for _, text := range list {
		text, _ := text.(string)
		ends, value, _ := strings.Cut(text, " ")
		if ms, err := strconv.ParseInt(ends, 10, 64); err == nil && ms >= (now+1)*1000 {
			all = append(all, claimUntil(value, ends, now))
		}
	}
	return all
}

// seconds returns a server's time.
func seconds(side *redistest.Side) (now int64, ok bool) {
	reply, err := side.Do("TIME")
	clock, _ := reply.([]any)
	if err != nil || len(clock) != 2 {
		return 0, false
	}
	text, _ := clock[0].(string)
	now, err = strconv.ParseInt(text, 10, 64)
	return now, err == nil
}

// claimUntil returns the claim of one whose time ends then, in ms by a clock
// that shows up to a second more than now.
func claimUntil(value, ends string, now int64) claim {
	ms, _ := strconv.ParseInt(ends, 10, 64)
	left := max(ms-now*1000-1000, 0)
	return claim{digestOf(value), time.Now().Add(time.Duration(left-left/50) * time.Millisecond)}
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
	return strings.HasPrefix(name, "redlock:seal") || strings.HasSuffix(name, ":fence")
}
