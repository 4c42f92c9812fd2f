package pure_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
)

const ms = time.Millisecond

// A world has servers and clients that name three of them each. Messages take
// random times, in order on each connection. Clients die and are replaced,
// nodes are emptied, connections end with messages under way, which arrive or
// do not.
type world struct {
	*rand.Rand
	t       *testing.T
	now     time.Duration
	servers []*server
	clients []*client
	events  []event // what happens, in no order
	lossy   bool
	whole   map[string][]int // the deployments that counted once with all their nodes
}

type server struct {
	node    *redistest.Node // which runs seal.lua
	expires time.Duration   // of a proposal
	born    time.Duration
}

const sealKey, openingKey = "seal", "opening"

type client struct {
	pure.Deployment
	set   []int
	alive bool
	links []link
	looks []time.Duration
}

// A link is a client's connection to one of its servers.
type link struct {
	up    bool
	epoch int           // of the connection
	last  time.Duration // when its last message arrives
}

type event struct {
	at time.Duration
	do func()
}

func addr(server int) string { return fmt.Sprintf("server%d:1", server) }

func (w *world) after(d time.Duration, do func()) {
	w.events = append(w.events, event{w.now + d, do})
}

// step runs the earliest event.
func (w *world) step() bool {
	first := -1
	for i, e := range w.events {
		if first < 0 || e.at < w.events[first].at {
			first = i
		}
	}
	if first < 0 {
		return false
	}
	e := w.events[first]
	w.events = append(w.events[:first:first], w.events[first+1:]...)
	w.now = max(w.now, e.at)
	e.do()
	return true
}

func (w *world) enter(set []int) *client {
	var addrs []string
	for _, s := range set {
		addrs = append(addrs, addr(s))
	}
	c := &client{
		Deployment: pure.NewDeployment(addrs), set: set, alive: true,
		links: make([]link, len(set)), looks: make([]time.Duration, len(set)),
	}
	w.clients = append(w.clients, c)
	for i := range set {
		w.connect(c, i)
	}
	w.tend(c)
	return c
}

// connect has the client shake hands and look before it joins.
func (w *world) connect(c *client, i int) {
	w.after(w.upTo(50*ms), func() {
		if !c.alive || c.links[i].up {
			return
		}
		l := &c.links[i]
		l.up = true
		l.epoch++
		c.Born(i, w.servers[c.set[i]].born)
		w.send(c, i, func(done func(func())) {
			asked, seen := w.now, w.look(c.set[i])
			done(func() {
				c.Sight(i, seen, asked-10*ms, w.now)
				c.Join(i)
				w.settle(c)
			})
		}, nil)
	})
}

// part ends a connection; the client reconnects.
func (w *world) part(c *client, i int) {
	if !c.links[i].up {
		return
	}
	c.links[i].up = false
	c.links[i].epoch++
	c.Part(i)
	w.settle(c)
	w.connect(c, i)
}

// send has a command executed at a server, and its answer brought back if the
// connection is still the same. A command whose connection ended may still be
// executed.
func (w *world) send(c *client, i int, execute func(done func(func())), lost func()) {
	l := &c.links[i]
	epoch := l.epoch
	slow := w.upTo(2 * ms)
	if w.lossy && w.IntN(50) == 0 {
		slow = w.upTo(7 * time.Second)
	}
	l.last = max(l.last, w.now) + slow
	w.after(l.last-w.now, func() {
		if c.links[i].epoch != epoch && w.IntN(2) == 0 {
			return
		}
		execute(func(answer func()) {
			w.after(w.upTo(2*ms), func() {
				if c.alive && c.links[i].epoch == epoch {
					answer()
				}
			})
		})
	})
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.Int64N(int64(d))) }

// expire ends a proposal by the world's clock.
func (w *world) expire(s *server) {
	if w.now >= s.expires && strings.Contains(s.opening(), "proposed") {
		s.node.DB().Delete(openingKey)
	}
}

func (s *server) opening() string {
	text, _ := s.node.Get(openingKey)
	return text
}

func (w *world) look(node int) pure.Sighting {
	s := w.servers[node]
	w.expire(s)
	seen := pure.Sighting{What: pure.SealAbsent}
	var errs [2]error
	if text, sealed := s.node.Get(sealKey); sealed {
		seen.What = pure.SealSeen
		seen.Seal, errs[0] = pure.ParseSeal(text)
	}
	if text := s.opening(); text != "" {
		seen.Opening, errs[1] = pure.ParseOpening(text)
	}
	require.NoError(w.t, errors.Join(errs[:]...))
	return seen
}

// settle carries out a client's orders, and then checks the property.
func (w *world) settle(c *client) {
	if !c.alive {
		return
	}
	for n := 0; ; n++ {
		o := c.Next(w.now, w.Uint64)
		if o.Verb == pure.Nothing {
			break
		}
		if n > 20 {
			w.t.Fatal("Next does not end")
		}
		for i := range c.set {
			if o.Nodes>>i&1 == 1 && c.links[i].up {
				w.order(c, i, o)
			}
		}
	}
	w.check()
}

func (w *world) order(c *client, i int, o pure.Order) {
	s := w.servers[c.set[i]]
	if o.Verb == pure.Look {
		asked := w.now
		w.send(c, i, func(done func(func())) {
			seen := w.look(c.set[i])
			done(func() { c.Sight(i, seen, asked, w.now); w.settle(c) })
		}, nil)
		return
	}
	if w.lossy && w.IntN(30) == 0 {
		c.Drop(i, o)
		return
	}
	w.send(c, i, func(done func(func())) {
		w.expire(s)
		did := string(s.node.Eval(lua.Seal, []string{sealKey, openingKey}, arguments(o)...)) == ":1\r\n"
		if did && o.Verb == pure.Propose {
			s.expires = w.now + pure.ProposalTTL
		}
		done(func() { c.Answer(i, o, did); w.settle(c) })
	}, nil)
}

// arguments are those of seal.lua. A proposal lives until expire ends it.
func arguments(o pure.Order) []string {
	who := o.Identity.String()
	seal := pure.Seal{Identity: o.Identity, Run: "r", MaxTTL: ms}.String()
	return map[pure.Verb][]string{
		pure.Propose: {"propose", who, "3600000", "  "},
		pure.Lock:    {"lock", who},
		pure.Confirm: {"seal", who, seal},
		pure.Adopt:   {"adopt", who, seal, "  "},
		pure.Undo:    {"undo", who},
	}[o.Verb]
}

// tend is a client's regular looks, and what it does by the clock.
func (w *world) tend(c *client) {
	if !c.alive {
		return
	}
	for i := range c.set {
		if c.links[i].up && w.now >= c.looks[i] {
			c.looks[i] = w.now + time.Second
			w.order(c, i, pure.Order{Verb: pure.Look, Nodes: 1 << i})
		}
	}
	w.settle(c)
	w.after(min(max(ms, c.Wait(w.now)-w.now), 200*ms), func() { w.tend(c) })
}

// counting returns the deployment of which a client counts a quorum of votes,
// and how many; "" if of none.
func (c *client) counting() (id string, nodes int) {
	for i := range c.set {
		if c.links[i].up && c.Counts(i) {
			nodes++
		}
	}
	if who, _ := c.Identity(); c.alive && nodes >= len(c.set)/2+1 {
		return who.ID, nodes
	}
	return "", nodes
}

// check is R30: two clients whose sets overlap never both count for different
// deployments, if one of these has counted with its whole set. What it counts
// does not change within a deployment: quorums of its members.
func (w *world) check() {
	for _, a := range w.clients {
		ida, n := a.counting()
		if ida == "" {
			continue
		}
		if n == len(a.set) {
			w.whole[ida] = a.set
		}
		for _, b := range w.clients {
			idb, _ := b.counting()
			if idb == "" || ida == idb || !overlap(a.set, b.set) {
				continue
			}
			if w.whole[ida] != nil || w.whole[idb] != nil {
				w.t.Fatalf("at %v: %v counts for %s, %v for %s", w.now, a.set, ida, b.set, idb)
			}
		}
	}
}

func overlap(a, b []int) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y {
				return true
			}
		}
	}
	return false
}

// empty is the restart of a server without its keys. It is seen to be gone
// before it is back.
func (w *world) empty(node int) {
	w.servers[node].node.FlushAll()
	w.servers[node].born = w.now
	for _, c := range w.clients {
		for i := range c.set {
			if c.alive && c.set[i] == node {
				w.part(c, i)
			}
		}
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 15)), t: t, now: time.Hour, whole: make(map[string][]int)}
	for range 5 {
		s := &server{node: redistest.NewNode(redistest.NodeConfig{})}
		t.Cleanup(func() { _ = s.node.Close() })
		w.servers = append(w.servers, s)
	}
	return w
}

func (w *world) run(until time.Duration) {
	for w.now < until && w.step() {
	}
}

// seeds is how many worlds a test draws. Under the race detector, which finds
// nothing in a single goroutine, a few do: Lua takes twenty times as long
// there.
var seeds = map[bool]int{false: 100, true: 10}[redistest.Raceful]

// Clients of one set that start within a moment come to one deployment, within
// a second if nothing is lost.
func TestClientsOfOneSetConverge_R30(t *testing.T) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 1 + w.IntN(6) {
				set := []int{0, 1, 2}
				w.Shuffle(3, func(i, j int) { set[i], set[j] = set[j], set[i] })
				w.after(w.upTo(100*ms), func() { w.enter(set) })
			}
			w.run(time.Hour + time.Second + 200*ms)
			first, _ := w.clients[0].counting()
			assert.NotEmpty(t, first)
			for _, c := range w.clients {
				id, n := c.counting()
				assert.Equal(t, first, id)
				assert.Equal(t, 3, n)
			}
		})
	}
}

// Clients of sets that overlap, with crashes of clients, connections that end,
// orders that fail, messages that are late beyond the end of proposals, and
// members that are emptied one at a time while a client of theirs lives: R30
// holds, and the clients of the set that was opened count in the end.
func TestOverlappingSets_R30(t *testing.T) {
	sets := [][]int{{0, 1, 2}, {2, 3, 4}, {1, 2, 3}}
	opened := 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			w.lossy = w.IntN(3) > 0
			w.enter(sets[w.IntN(len(sets))])
			for range 1 + w.IntN(4) {
				w.after(w.upTo(300*ms), func() { w.enter(sets[w.IntN(len(sets))]) })
			}
			for range w.IntN(8) {
				w.after(w.upTo(20*time.Second), func() { // a connection ends
					c := w.clients[w.IntN(len(w.clients))]
					if c.alive {
						w.part(c, w.IntN(3))
					}
				})
			}
			for range w.IntN(3) {
				w.after(w.upTo(time.Second), func() { // a client dies, perhaps in the middle of opening
					c := w.clients[w.IntN(len(w.clients))]
					c.alive = false
					w.after(w.upTo(5*time.Second), func() { w.enter(c.set) })
				})
			}
			for i := range w.IntN(3) {
				w.after(time.Duration(20+10*i)*time.Second, func() { w.empty(w.IntN(5)) })
			}
			w.run(time.Hour + time.Minute)
			w.lossy = false
			w.run(time.Hour + time.Minute + 20*time.Second)
			counting := make(map[string]bool)
			for _, c := range w.clients {
				if id, _ := c.counting(); id != "" {
					counting[id] = true
				}
			}
			assert.LessOrEqual(t, len(counting), 1)
			if len(counting) > 0 {
				opened++
			}
		})
	}
	assert.Greater(t, opened, seeds/2, "in most worlds locks are granted")
}
