package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// quiet keeps warnings about what is done on purpose to itself.
var quiet = slog.New(slog.DiscardHandler)

// sideConfig returns the configuration of a client that is not one of the
// world's processes, for some of the masters.
func (w *world) sideConfig(name string, masters []*master) redlock.Config {
	var urls []string
	for _, m := range masters {
		m.node.Serve(w.network.Listen(m.addrFor(name)))
		urls = append(urls, m.url())
	}
	c := redlock.Config{
		Nodes: redlock.Nodes(urls...), Connect: redlock.Connect{NetDial: w.dialAs(name, 0), ClientName: name, Timeout: dialTimeout}, Logger: quiet,
		Prefix: w.draw.prefix, DriftFactor: w.draw.driftFactor, MaxTTL: w.draw.maxTTL,
	}
	for i, m := range masters {
		c.Nodes[i].Durable = w.draw.durable[m.index]
	}
	return c
}

// found opens the deployment as an operator does.
func (w *world) found() {
	d, err := admin.Init(context.Background(), w.sideConfig("init", w.masters))
	if err != nil || !d.New || d.Nodes != w.draw.nodes {
		panic(fmt.Sprintf("Init: %+v, %v", d, err)) // nothing is wrong yet
	}
}

// misfits starts clients that name only some of the masters, now and then, once
// the deployment is open. They must get no lock (R30).
func (w *world) misfits() {
	random := w.draw.random(200)
	for i := 0; w.sleep(100*ms + span(random, time.Second)); {
		w.mu.Lock()
		open := w.report.counts["grants"] > 0
		w.mu.Unlock()
		if open {
			i++
			w.misfit(fmt.Sprintf("m%d", i), w.masters[:w.draw.nodes-1-random.IntN(w.draw.nodes-1)])
		}
	}
}

func (w *world) misfit(name string, masters []*master) {
	c, err := redlock.New(context.Background(), w.sideConfig(name, masters))
	if err != nil {
		panic(err) // the simulation itself is wrong
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*ms)
	defer cancel()
	_, err = c.Acquire(ctx, "r0", w.draw.longest)
	switch {
	case err == nil:
		w.violate("R30", "%s names %d of %d masters, and got a lock", name, len(masters), w.draw.nodes)
	case errors.Is(err, redlock.ErrDeployment):
		w.count("misconfigured clients refused", 1)
	default:
		w.count("misconfigured clients without an answer", 1)
	}
	_ = c.Close(context.Background())
}

// In some seeds half of the clients name another set of masters than the rest:
// as many, some of which both name (R30). No set is opened before they start.
// Of two sets that share less than a quorum, only one may count; if they share a
// quorum, both may, and exclude each other by it.
//
// That ends when all shared masters have lost their keys while no client of
// their set could reach them, and the other set was opened with them. From then
// on each set may have locks of its own. But what was locked before the keys
// were lost excludes the other set all the same (R29).

// overlap is what is known of the two sets.
type overlap struct {
	mu      sync.Mutex      // guards the following
	counted [2]bool         // clients of the set got a lock
	known   map[string]bool // ids of deployments
	taken   *takeover       // the first one; nil if there was none
}

// A takeover is the opening of a set with masters that belonged to the other.
type takeover struct {
	from int       // the set that they belonged to
	lost time.Time // when the last of them lost its keys
	at   time.Time // when the opening was seen
}

// overlap draws the two sets. Masters forget, in most seeds.
func (d *draw) overlap(r *rand.Rand) {
	d.maxTTL, d.founded, d.misfits = d.longest, false, false
	d.age = pick(r, 0, 5*time.Second, time.Minute, time.Minute)
	d.processes = 3 + r.IntN(2)
	if r.IntN(2) == 0 {
		d.beTakenOver()
		return
	}
	d.contest = 10 * time.Second
	if r.IntN(3) > 0 && !d.forgets() {
		d.kinds = append(d.kinds, kindNamed(forgetting))
	}
}

// beTakenOver makes one set take over from the other. Locks last for longer than
// that takes, so that one from before is still valid.
func (d *draw) beTakenOver() {
	d.shortest, d.longest = 5*time.Second, 6*time.Second
	d.maxTTL, d.age, d.nodeTimeout = d.longest, time.Minute, 0
	d.workers, d.resources, d.restless = 3, 4, false
	for i := range d.durable {
		d.durable[i] = false
	}
	d.kinds, d.misfortunes, d.gap = []kind{kindNamed(outOfReach)}, 1, 2*time.Second
	d.contest = 30 * time.Second
}

// masters returns how many there are.
func (d *draw) masters() int {
	if d.shared == 0 {
		return d.nodes
	}
	return 2*d.nodes - d.shared
}

// set returns the masters that the clients of one of the sets name.
func (w *world) set(which int) []*master {
	if which == 0 {
		return w.masters[:w.draw.nodes]
	}
	return w.masters[len(w.masters)-w.draw.nodes:]
}

// inBoth returns the masters that both sets name.
func (w *world) inBoth() []*master { return w.masters[len(w.masters)-w.draw.nodes : w.draw.nodes] }

// shareQuorum reports whether the sets share a quorum of either.
func (w *world) shareQuorum() bool { return len(w.inBoth()) >= w.draw.quorum() }

// sealIn returns the seal of a master with these keys; zero for none.
func (w *world) sealIn(keys *redistest.DB) pure.Seal {
	text, _ := keys.Get(w.draw.prefix + "redlock:seal")
	seal, _ := pure.ParseSeal(text)
	return seal
}

// emptied notes which deployment a master belonged to, or was listed for, before
// it lost these keys.
func (m *master) emptied(before *redistest.DB) {
	was := m.world.sealIn(before)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sealed = pure.Identity{}
	if !was.Free() {
		m.was = was
	}
}

// setOf returns the set that a seal is of: that of which it names all masters.
func (w *world) setOf(seal pure.Seal) int {
	for which := range 2 {
		if !slices.ContainsFunc(w.set(which), func(m *master) bool { return seal.Names.Member(pure.NameOf(m.addr(), 0)) == "" }) {
			return which
		}
	}
	panic("a seal of other masters: " + seal.String()) // the simulation itself is wrong
}

// lookAtSeals checks the seals of the shared masters, and notes when they are
// taken over.
func (w *world) lookAtSeals() {
	if w.draw.shared == 0 {
		return
	}
	w.sets.mu.Lock()
	defer w.sets.mu.Unlock()
	for _, m := range w.inBoth() {
		seal := w.sealIn(m.node.DB())
		who := seal.Open
		if who == (pure.Identity{}) {
			continue
		}
		m.mu.Lock()
		before := m.sealed
		m.sealed = who
		m.mu.Unlock()
		if before != (pure.Identity{}) && before != who {
			w.violate("R30", "node %d belongs to another deployment than before, and lost nothing", m.index)
		}
		if !w.sets.known[who.ID] {
			w.sets.known[who.ID] = true
			w.opened(w.setOf(seal))
		}
	}
}

// opened notes that a set was opened, and whether it was taken over with that.
// The caller must hold the sets' mutex.
func (w *world) opened(which int) {
	w.count("sets opened", 1)
	t := &takeover{from: 1 - which, at: time.Now()}
	for _, m := range w.inBoth() {
		m.mu.Lock()
		if !m.was.Free() && w.setOf(m.was) == t.from && m.forgot.After(t.lost) {
			t.lost = m.forgot
		}
		m.mu.Unlock()
	}
	if t.lost.IsZero() {
		return
	}
	w.count("sets taken over", 1)
	if p := w.inReach(t.from); p != nil {
		w.violate("R30", "masters were taken over, though %s could have adopted them", p.name)
	}
	if w.sets.taken == nil {
		w.sets.taken = t
	}
}

// adoptedWithin is how long a client may take to adopt an empty master (R26).
const adoptedWithin = 2500 * ms

// inReach returns a client that knows its deployment, and has been well with
// all its masters for so long that it would have adopted an empty one; nil if
// there is none.
func (w *world) inReach(which int) *process {
	since := time.Now().Add(-adoptedWithin)
	for _, p := range w.running() {
		if p.set == which && p.hasCounted() && p.began.Before(since) && !p.isBarred() && p.isWell(since) {
			return p
		}
	}
	return nil
}

// isWell reports whether nothing has been wrong between the process and its
// masters since then.
func (p *process) isWell(since time.Time) bool {
	for _, m := range p.masters {
		if !m.calm.isSince(since) || !p.lanes[m.index].calm.isSince(since) || !m.away[p.set].isSince(since) {
			return false
		}
	}
	return true
}

func (p *process) hasCounted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.granted
}

// counted notes that a process got a lock. Unless both sets may count, no
// process of the other has ever got one.
func (w *world) counted(p *process) {
	p.mu.Lock()
	p.granted = true
	p.mu.Unlock()
	w.lookAtSeals()
	w.sets.mu.Lock()
	w.sets.counted[p.set] = true
	both := w.sets.counted[0] && w.sets.counted[1]
	w.sets.mu.Unlock()
	if both && !w.shareQuorum() && w.takenOver() == nil {
		w.violate("R30", "%s got a lock, and so did clients of the other set", p.name)
	}
}

// takenOver returns the first takeover, or nil.
func (w *world) takenOver() *takeover {
	w.sets.mu.Lock()
	defer w.sets.mu.Unlock()
	return w.sets.taken
}

// excludes reports whether two tenures of one resource must not overlap.
func (w *world) excludes(a, b *tenure) bool {
	t := w.takenOver()
	if t == nil || a.of.process.set == b.of.process.set {
		return true
	}
	if a.of.process.set != t.from {
		a, b = b, a
	}
	return a.isSinceBefore(t.lost) && !b.at.Before(t.at)
}

// isSinceBefore reports whether the validity of a tenure is known to count from
// before that time (R4).
func (t *tenure) isSinceBefore(then time.Time) bool {
	return t.ttl > 0 && t.until().Add(t.of.process.world.draw.slack(t.ttl)-t.ttl).Before(then)
}

// takeAway empties the masters that both sets name, and in most cases keeps the
// clients of the set that they belong to away from them for as long as the
// others wait. Before that, new clients of the other set watch their other
// masters, and cannot know whose these were.
func (m *misfortune) takeAway() func() {
	w := m.world
	seal := w.sealIn(w.inBoth()[0].node.DB())
	if seal.Open == (pure.Identity{}) {
		return nil
	}
	owners := w.setOf(seal)
	meet := w.part(1 - owners)
	for _, p := range w.running() {
		if p.set != owners {
			p.crash(true)
		}
	}
	w.sleep(pick(m.random, 0, w.draw.quarantine()) + span(m.random, time.Second))
	for _, master := range w.inBoth() {
		master.forget()
	}
	meet()
	if meet = func() {}; m.random.IntN(4) > 0 {
		meet = w.part(owners)
	}
	w.sleep(4*time.Second + span(m.random, time.Second))
	return meet
}

// part keeps the clients of a set away from the masters that both name, until
// the function that it returns is called.
func (w *world) part(which int) (meet func()) {
	var mends []func()
	for _, m := range w.inBoth() {
		mends = append(mends, lasting(&m.away[which], 0, func() {}))
		for _, p := range w.running() {
			if l := p.lanes[m.index]; p.set == which {
				mends = append(mends, lasting(&l.calm, brief, func() {}))
				l.link.Reset()
			}
		}
	}
	return func() {
		for _, mend := range mends {
			mend()
		}
	}
}

// sealedFor returns how many masters of a set belong to a deployment of one of
// the sets.
func (w *world) sealedFor(which, owner int) (n int) {
	for _, m := range w.set(which) {
		if seal := w.sealIn(m.node.DB()); seal.Open != (pure.Identity{}) && w.setOf(seal) == owner {
			n++
		}
	}
	return n
}

// A share is which of its masters count for a process once nothing is wrong.
type share uint8

const (
	unsettled share = iota // no set is open
	whole                  // all
	common                 // those that both sets name, which are a quorum
	refused                // none, since masters belong to the other set
)

// share returns what the masters' seals mean for a process.
func (w *world) share(p *process) share {
	own, other := p.set, 1-p.set
	switch {
	case w.draw.shared == 0 || w.sealedFor(own, own) == w.draw.nodes:
		return whole
	case w.sealedFor(other, other) < w.draw.nodes:
		return unsettled
	case w.shareQuorum() && w.sealedFor(own, own) == 0:
		return common
	}
	return refused
}
