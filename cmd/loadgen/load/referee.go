package load

import (
	"sync"
	"time"

	records "github.com/redmux/redmux/proof/history"
)

// A referee checks the locks of some resources while callers work, by the rules
// that judge histories (history.Exclusion). Grants and releases are told under
// one lock and dated there: a grant after its call has returned, a release
// before its call is made. So they come in order of time, and no pause of a
// caller causes a false violation. Readers, permits and the ends of validity are
// the rules' concern.
type referee struct {
	mu        sync.Mutex // guards the following
	exclusion records.Exclusion
	_         [64]byte // callers of other resources write elsewhere
}

// mostReferees bounds how many share the resources.
const mostReferees = 256

// newReferees returns none if each caller has a resource of its own: no other
// caller can be granted it.
func newReferees(f *flags) []referee {
	return make([]referee, min(f.Keys, mostReferees))
}

// report tells of a grant or a release of what was picked.
func (c *caller[L]) report(ev event, until time.Duration) {
	if len(c.referees) == 0 {
		return
	}
	for _, i := range c.picked {
		c.referees[i%len(c.referees)].add(c.clock, records.Event{
			Client: c.id, Resource: c.resources[i], Attempt: uint64(c.attempts),
			Ev: ev, Until: int64(until), Form: c.form, Permits: c.flags.Kind.permits,
		})
	}
}

func (r *referee) add(now clock, e records.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.T = int64(now.now())
	r.exclusion.Add(e)
}

// violated returns how many violations all referees have seen.
func (p *phase) violated() (n int64) {
	for i := range p.referees {
		r := &p.referees[i]
		r.mu.Lock()
		n += int64(len(r.exclusion.Violations()) + r.exclusion.More())
		r.mu.Unlock()
	}
	return n
}
