package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/redistest"
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
	if len(orphans) > 0 {
		fmt.Fprintf(r.options.log, "orphans; not settled now: %q; the latest faults, the last first:\n  %s\n",
			r.unsettled(), strings.Join(r.log.recently(), "\n  "))
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
