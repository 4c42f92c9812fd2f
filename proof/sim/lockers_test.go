package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// Fencing numbers (docs/internals/fencing.md), and locks on several resources.
// Some clients have Config.Fenced, and contend with the others.

var acquireFencedDigest, acquireAllDigest, releaseAllDigest = redistest.SHA1(lua.AcquireFenced),
	redistest.SHA1(lua.AcquireAll), redistest.SHA1(lua.ReleaseAll)

// drawNumbers draws which locks have numbers, or are not plain. Its
// random numbers are its own, so that it changes nothing else.
func (d *draw) drawNumbers() {
	r := d.random(300)
	if d.maxTTL > 0 && d.shared == 0 && r.IntN(2) == 0 {
		d.fenced, d.founded, d.maxTTL = true, true, d.longest // Init gives the masters their floors
	}
	for i := range d.offsets {
		if d.fenced { // numbers may be a minute ahead of a clock
			d.offsets[i] %= 25 * time.Second
		}
	}
	d.sets = d.resources > 1 && r.IntN(2) == 0
	d.lockers = d.shared == 0 && r.IntN(3) == 0
}

// A numbered grant is a lock with a fencing number.
type numbered struct {
	at     time.Time // when the call returned
	number uint64
}

// ordered checks the number of a lock that is granted now. start is not after
// the start of its attempt.
func (r *referee) ordered(k *worker, resource string, start time.Time, number uint64) {
	if number == 0 {
		return
	}
	r.world.count("numbers", 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.numbers[resource] {
		if g.number == number || g.number > number && g.at.Before(start) {
			r.world.violate("order", "%s: %s is granted number %d, and %d was granted %v before it asked",
				resource, k.process.name, number, g.number, start.Sub(g.at))
		}
	}
	r.numbers[resource] = append(r.numbers[resource], numbered{time.Now(), number})
}

// highest returns the highest number that was granted.
func (r *referee) highest() (n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, all := range r.numbers {
		for _, g := range all {
			n = max(n, g.number)
		}
	}
	return n
}

// operate resets the fence whenever so many masters lost their memory that the
// others cannot make up for it, as an operator does.
func (w *world) operate() {
	for i := 0; w.sleep(500 * ms); i++ {
		w.resetFence(fmt.Sprintf("operator%d", i))
	}
}

// resetFence reports whether it was needed, and worked.
func (w *world) resetFence(name string) (needed bool, err error) {
	sealed := 0
	for i, m := range w.masters {
		text, _ := m.node.Get(w.draw.prefix + "redlock:fence")
		r, err := pure.ParseRecord(text)
		if err == nil && r.Floor != pure.NoFloor && (w.draw.durable[i] || r.Run == m.node.Process()) {
			sealed++
		}
	}
	if n := w.draw.nodes; sealed >= n-w.draw.quorum()+1 && sealed >= w.draw.quorum() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if _, err = admin.ResetFence(ctx, w.sideConfig(name, w.masters), w.referee.highest()); err == nil {
		w.count("resets of the fence", 1)
	}
	return true, err
}

// awaitFloors waits, when all faults are over, until every client with numbers
// can get locks.
func (w *world) awaitFloors() {
	if !w.draw.fenced {
		return
	}
	needed, err := true, error(nil)
	for i := 0; needed && i < 10; i++ {
		needed, err = w.resetFence(fmt.Sprintf("resetter%d", i))
	}
	if needed {
		w.violate("liveness", "the fence cannot be reset: %v", err)
	}
	for _, p := range w.running() {
		ctx, cancel := context.WithTimeout(context.Background(), floorMost+w.draw.quarantine())
		err := p.client.Ready(ctx)
		for errors.Is(err, redlock.ErrNoFloor) && ctx.Err() == nil { // which it says at once
			time.Sleep(50 * ms)
			err = p.client.Ready(ctx)
		}
		cancel()
		if err != nil {
			w.violate("liveness", "%s: no quorum has floors: %v", p.name, err)
		}
	}
}

// floorMost is how long nodes may take to get their floors, and clients to see
// them: looks are a second apart.
const floorMost = 4 * time.Second

// lockAll takes a lock on all resources, or some of them.
func (k *worker) lockAll() {
	w, p := k.process.world, k.process
	var resources []string
	for _, i := range k.random.Perm(w.draw.resources)[:2+k.random.IntN(w.draw.resources-1)] {
		resources = append(resources, fmt.Sprint("r", i))
	}
	ttl := k.ttl()
	ctx, cancel := k.patience(300 * ms)
	defer cancel()
	start := time.Now()
	lock, _, err := k.acquire(ctx, p.client.All(resources...), 0, ttl)
	if err != nil {
		return
	}
	w.count("sets", 1)
	if lock.Fence() > 0 {
		w.count("fenced sets", 1)
	}
	var all []*tenure
	for _, resource := range resources {
		all = append(all, w.referee.granted(k, resource, start, ttl, lock, nil))
	}
	p.awake()
	if k.random.IntN(2) == 0 {
		k.pause(span(k.random, lock.Validity()))
		lock = k.lengthen(lock, ttl, all...)
	}
	k.pause(span(k.random, lock.Validity()))
	if p.isDead() {
		return
	}
	for _, t := range all[1:] {
		w.referee.gaveUp(t)
	}
	k.expectHeld("Release", lock, k.release(all[0], 0, lock.Release))
}

// grantAnyNumber breaks a master: it does not compare. Now and then it also
// says that its clock is far behind, so that clients choose lower numbers.
func grantAnyNumber(keys, args []string, db *redistest.DB) any {
	const held, granted, stale, ahead = 0, 1, 2, 3 // the codes of acquire_fenced.lua
	if value, there := db.Get(keys[0]); there {
		return []any{held, 0, "1 " + value}
	}
	if args[2] == "0" { // a handshake
		return []int64{stale, 0}
	}
	if args[2][len(args[2])-1] == '7' {
		return []int64{ahead, 1_000_000}
	}
	db.Set(keys[0], args[0], milliseconds(args[1]))
	return []int64{granted, 0}
}

// Read/write locks, semaphores and fair locks, on resources of their own.

// permits are those of the semaphore, by most callers; some name one more.
const permits = 2

// attemptRounds is how many rounds an attempt for a permit may take.
const attemptRounds = 4

// exchangeErrors are those of Upgrade and Downgrade.
var exchangeErrors = append([]error{redlock.ErrNotHeld}, attemptErrors...)

// lockWith takes one of these locks once, and may turn a reader into a writer or
// a writer into a reader.
func (k *worker) lockWith() {
	p, ttl := k.process, k.ttl()
	rw := p.client.RW("w")
	t := &tenure{of: k, since: time.Now(), ttl: ttl, room: 1, unkeyed: true}
	var with redlock.Locker
	switch k.random.IntN(6) {
	case 0, 1:
		with, t.resource, t.room = rw.Read(), "w", math.MaxInt
	case 2:
		with, t.resource, t.unkeyed = rw.Write(), "w", false
	case 3, 4:
		t.resource, t.room = "s", permits+k.random.IntN(4)/3
		with = p.client.Semaphore("s", t.room)
	default:
		with, t.resource, t.unkeyed = p.client.Fair("f"), "f", false
	}
	if !k.take(t, with) {
		return
	}
	k.pause(span(k.random, t.lock.Validity()))
	switch n := k.random.IntN(4); {
	case n == 0 && t.room == math.MaxInt:
		k.upgrade(rw, t)
	case n == 0 && t.resource == "w":
		if t = k.downgrade(rw, t); t == nil {
			return
		}
	case n == 1:
		k.lengthen(t.lock, ttl, t)
	}
	k.pause(span(k.random, t.lock.Validity()))
	if p.isDead() || k.random.IntN(8) == 0 {
		return // it is left to its TTL
	}
	k.expectHeld("Release", t.lock, k.release(t, 0, t.lock.Release))
}

// take acquires the lock of a tenure, and reports whether it was granted.
func (k *worker) take(t *tenure, with redlock.Locker) bool {
	w := k.process.world
	ctx, cancel := k.patience(300 * ms)
	defer cancel()
	var err error
	if t.lock, _, err = k.acquire(ctx, with, attemptRounds*w.draw.voteTimeout(), t.ttl); err != nil {
		return false
	}
	w.count("grants to "+t.resource, 1)
	w.referee.begin(t)
	k.process.awake()
	return true
}

// upgrade makes a reader the writer for a while.
func (k *worker) upgrade(rw redlock.RWLock, read *tenure) {
	w := k.process.world
	t := &tenure{of: k, resource: "w", since: time.Now(), ttl: read.ttl, room: 1, under: read}
	ctx := context.WithValue(context.Background(), workerKey{}, k)
	err := k.call("Upgrade", 0, ctx, exchangeErrors, func() (err error) {
		t.lock, err = rw.Upgrade(ctx, read.lock, t.ttl)
		return err
	})
	if err != nil {
		return
	}
	w.count("upgrades", 1)
	w.referee.begin(t)
	k.pause(span(k.random, t.lock.Validity()))
	k.expectHeld("Release", t.lock, k.release(t, 0, t.lock.Release))
}

// downgrade makes the writer a reader. It returns nil if it holds nothing then.
func (k *worker) downgrade(rw redlock.RWLock, write *tenure) *tenure {
	w := k.process.world
	t := &tenure{of: k, resource: "w", since: time.Now(), ttl: write.ttl, room: math.MaxInt, unkeyed: true}
	w.referee.gaveUp(write)
	ctx := context.WithValue(context.Background(), workerKey{}, k)
	err := k.call("Downgrade", 0, ctx, exchangeErrors, func() (err error) {
		t.lock, err = rw.Downgrade(ctx, write.lock, t.ttl)
		return err
	})
	if err != nil {
		return nil
	}
	w.count("downgrades", 1)
	w.referee.begin(t)
	return t
}

// crowded reports whether the holders of a resource are too many: the last one
// is new. Of permits, the most that any of them named is the limit.
func crowded(holders []*tenure) bool {
	n, last := len(holders), holders[len(holders)-1]
	if last.resource == "s" {
		return n > slices.MaxFunc(holders, func(a, b *tenure) int { return a.room - b.room }).room
	}
	under := last.under
	if under != nil && slices.Contains(holders, under) {
		n-- // its holder has both locks
	}
	return slices.ContainsFunc(holders, func(t *tenure) bool { return t != under && n > t.room })
}

// ofLockers are the ends of keys of such locks that no holder owns: they end by
// themselves.
var ofLockers = []string{"w:redlock:mark", "w:redlock:readers", "s:redlock:wanted", "f:redlock:ticket", "f:redlock:queue", "f:redlock:leases"}

func isOfLockers(key string) bool {
	for _, end := range ofLockers {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return strings.Contains(key, "f:redlock:queue:") || strings.HasSuffix(key, "f:redlock:turn")
}
