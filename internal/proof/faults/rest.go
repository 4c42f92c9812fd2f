package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/proof/history"
	"github.com/redmux/redmux/internal/redistest"
)

// A rest looks for what was left behind: all faults are healed and no attempt is made, until every client is connected
// to every node, has its answers, and owes nothing. From then on a key without a holder is an orphan, unless the next
// second removes it.

const (
	// settleLook is the time between two looks at who has settled.
	settleLook = 5 * time.Millisecond
	// settleLooks bounds how long clients may take to come back: as a rule that is a second. It is a number of looks, ten
	// seconds' worth, so that where the machine leaves no time to this process the clients have more of it too.
	settleLooks = int(10 * time.Second / settleLook)
	// barredLooks is the same for clients that nothing keeps away but what a node refused to their password or rights: after some
	// of these in turn one waits up to 30 s before it dials again (R26).
	barredLooks = int(40 * time.Second / settleLook)
	// orphanAge is how old an orphan must be to be counted.
	orphanAge = time.Second
)

// rest makes a rest. It is made to its end, whatever ends meanwhile: a run whose last faults keep a client away for long would
// else never have looked between them.
func (r *run) rest() error {
	r.gate.close()
	defer r.gate.open()
	began := time.Now()
	defer r.order(order{Do: orderGo})
	if unsettled := r.settle(); len(unsettled) > 0 {
		r.results.unsettled(unsettled)
		return nil
	}
	return r.search(began)
}

// settle orders the processes to rest, or those that rest to ask every node once more, and waits until all have settled. It
// returns what has not.
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

// A suspect is a key that is no living hold's.
type suspect struct {
	what string    // which one, on what node
	ends time.Time // before this its TTL cannot have ended it
}

// search looks for orphans when all have settled, in a rest that began at a time.
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
	// A look that came so late that every key from before the rest has ended by itself says nothing.
	looked := time.Since(began) < r.options.MaxTTL
	var orphans []string
	if len(suspects) > 0 { // a hold that was lost meanwhile is being released
		time.Sleep(200 * time.Millisecond)
		// Every node has answered what it was sent before, however busy it was.
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

// judgeSuspects says which suspects are orphans: those that are still there. It is unknown what the others are if one of them
// may have been ended by its TTL instead of a release.
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

// unsettled says what processes and nodes are not at rest.
func (r *run) unsettled() (all []string) {
	for _, p := range r.crew.all() {
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

// suspects lists the keys whose value is no living hold's token, as "node 2: u:1:2:3 (1a2b3c4d)", and counts all that were
// looked at. Names of these resources are made up here, and no secret.
func (r *run) suspects() (keys int, suspects []suspect, err error) {
	held := map[string]bool{}
	for _, p := range r.crew.all() {
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
			if strings.HasPrefix(key, prefix+"redlock:seal") {
				continue
			}
			keys++
			value, err := side.Do("GET", key)
			token, _ := value.(string)
			if err != nil || token == "" {
				continue // it ended meanwhile
			}
			if digest := history.Digest([]byte(token)); !held[string(digest[:])] {
				what := fmt.Sprintf("node %d: %s (%s)", i, strings.TrimPrefix(key, prefix), digest)
				suspects = append(suspects, suspect{what, earliestEnd(side, key)})
			}
		}
	}
	return keys, suspects, nil
}

// earliestEnd is the time until which a key has no end of its own, also where the node's clock is fast.
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
