package sim

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

// A misfortune breaks one thing after another, and mends each again.
type misfortune struct {
	world  *world
	random *rand.Rand
}

// A kind of fault. strike starts it; the function that it returns mends it, or
// is nil if the fault is over at once. linger is how long its consequences may
// last after that.
type kind struct {
	name    string
	forgets bool // a master loses its keys, which requires MaxTTL
	strike  func(m *misfortune) (mend func())
}

// How long consequences may last.
const (
	// brief is the longest time until data in flight at the end of a fault
	// arrives.
	brief = 50 * ms
	// redial is the longest time until a connection that is known to be lost
	// has been replaced (R26).
	redial = 1200 * ms
	// unnoticed is the additional time until the end of a connection that died
	// silently is noticed.
	unnoticed = 300*ms + dialTimeout
	// retry is the longest time until each client knows which release commands
	// a master has.
	retry = 1500 * ms
)

// killForbidden is the fault that allows a release to overtake its SET.
const killForbidden = "CLIENT KILL forbidden"

// forgetting, demotion and blackout are the faults after which a quorum need not
// have the key of a valid lock any more.
const (
	forgetting = "master crashed and forgot"
	demotion   = "master was a replica for a moment"
	blackout   = "all masters lost power"
)

// outOfReach is the fault after which two sets may both have locks (R30).
const outOfReach = "shared masters emptied, out of reach of their clients"

// kinds are all kinds of faults.
var kinds = []kind{
	{name: "master stopped", strike: ofMaster(brief, func(_ *misfortune, n *master) func() { n.pause.on(); return n.pause.off })},
	{name: "master crashed", strike: ofMaster(brief, func(_ *misfortune, n *master) func() { // it comes back with its keys
		n.absent.on()
		n.node.RestartDurably()
		return n.absent.off
	})},
	{name: forgetting, forgets: true, strike: (*misfortune).crashEmpty},
	{name: blackout, forgets: true, strike: (*misfortune).blackout},
	{name: outOfReach, forgets: true, strike: (*misfortune).takeAway},
	{name: demotion, forgets: true, strike: (*misfortune).demote},
	{name: "master cut off", strike: ofMaster(brief, (*misfortune).cutOff)},
	{name: "connections dropped", strike: ofMaster(brief, func(_ *misfortune, n *master) func() { n.node.DropConns(); return nothing })}, // what it had received is executed
	{name: "scripts flushed", strike: (*misfortune).flushScripts},
	{name: "clock stepped back", strike: (*misfortune).stepBack},
	{name: "release form changed", strike: ofMaster(retry, (*misfortune).changeForm)},
	{name: "slow command", strike: ofMaster(brief, func(m *misfortune, n *master) func() { // and those behind it on its connection
		command := pick(m.random, "SET", "EVALSHA", "CLIENT KILL", "HELLO")
		n.node.Delay(command, span(m.random, 30*ms))
		return func() { n.node.Delay(command, 0) }
	})},
	{name: "order of connections", strike: func(m *misfortune) func() { // in which they are served after a pause
		m.master().node.SetOrder(redistest.Order(m.random.IntN(3)))
		return nothing
	}},
	{name: "OOM", strike: refuse("-OOM command not allowed when used memory > 'maxmemory'.", "SET")},
	{name: "MISCONF", strike: refuse("-MISCONF Errors writing to the AOF file", "SET", "EVALSHA", "DELEX", "DELIFEQ")},
	{name: "NOREPLICAS", strike: refuse("-NOREPLICAS Not enough good replicas to write.", "SET", "EVALSHA", "DELEX", "DELIFEQ")},
	{name: "BUSY", strike: refuse("-BUSY Redis is busy.", "SET", "EVALSHA", "DELEX", "DELIFEQ", "SCRIPT LOAD", "GET")},
	{name: "LOADING", strike: refuse("-LOADING Redis is loading.", "SET", "EVALSHA", "DELEX", "DELIFEQ", "GET", "PTTL")},
	{name: "releases refused", strike: refuse("-MISCONF Errors writing to the AOF file", "EVALSHA", "DELEX", "DELIFEQ")},
	{name: "NOPERM on SET", strike: refuse("-NOPERM this user has no permissions to run the 'set' command", "SET")},
	{name: "NOPERM on scripts", strike: refuse("-NOPERM this user has no permissions to run the 'evalsha' command", "EVALSHA")},
	{name: killForbidden, strike: refuse("-NOPERM this user has no permissions to run the 'client|kill' command", "CLIENT KILL")},
	{name: "latency", strike: ofLane(brief, func(m *misfortune, l *lane) func() {
		l.link.Latency(span(m.random, 20*ms), span(m.random, 20*ms))
		return func() { l.link.Latency(l.up, l.down) }
	})},
	{name: "lane held up", strike: ofLane(brief, func(_ *misfortune, l *lane) func() { return hold(&l.holdUp) })},
	{name: "lane held down", strike: ofLane(brief, func(_ *misfortune, l *lane) func() { return hold(&l.holdDown) })},
	{name: "lane held", strike: ofLane(brief, func(_ *misfortune, l *lane) func() { return hold(&l.holdUp, &l.holdDown) })},
	{name: "dials held", strike: ofLane(brief, func(_ *misfortune, l *lane) func() { l.link.Reset(); return hold(&l.holdDials) })},
	{name: "lane reset", strike: ofLane(brief, func(_ *misfortune, l *lane) func() { l.link.Reset(); return nothing })},
	{name: "lane refused", strike: ofLane(brief, func(_ *misfortune, l *lane) func() { l.link.Reset(); return hold(&l.refuse) })},
	{name: "half-open", strike: ofLane(unnoticed+brief, func(_ *misfortune, l *lane) func() { l.link.HalfOpen(); return nothing })}, // only the master knows
	{name: "break, delivered late", strike: ofLane(brief, func(m *misfortune, l *lane) func() { // commands arrive after a new connection was made (R8)
		l.holdUp.on() // so that commands are in flight
		m.world.sleep(span(m.random, 20*ms))
		l.link.Break(span(m.random, 300*ms))
		l.holdUp.off()
		return nothing
	})},
	{name: "cut after bytes up", strike: cut(redistest.Up)},
	{name: "cut after bytes down", strike: cut(redistest.Down)},
	// Bytes in flight at the end of a drip still arrive slowly.
	{name: "drip", strike: ofDirection(unnoticed+brief, func(m *misfortune, l *redistest.Link, d redistest.Direction) func() {
		l.Drip(d, span(m.random, 100*time.Microsecond))
		return func() { l.Drip(d, 0) }
	})},
	{name: "one byte at a time", strike: (*misfortune).chunk},
	// Writes wait until earlier ones have been read, as with full sockets.
	{name: "narrow window", strike: ofDirection(unnoticed+brief, func(m *misfortune, l *redistest.Link, d redistest.Direction) func() {
		l.Window(d, 1+m.random.IntN(200))
		return func() { l.Window(d, 0) }
	})},
	{name: "process stopped", strike: (*misfortune).stopProcess},
	{name: "process crashed", strike: (*misfortune).crashProcess},
}

// nothing mends a fault that is over by itself.
func nothing() {}

// strike causes faults until the contest is over. Then it mends what is broken.
func (m *misfortune) strike() {
	w := m.world
	for len(w.draw.kinds) > 0 && w.sleep(span(m.random, 2*w.draw.gap)) {
		k := w.draw.kinds[m.random.IntN(len(w.draw.kinds))]
		mend := k.strike(m)
		if mend == nil {
			continue // the fault did not apply
		}
		w.fault(k.name)
		w.sleep(span(m.random, pick(m.random, 10*ms, 100*ms, 100*ms, 300*ms)))
		mend()
	}
}

// master returns a random master.
func (m *misfortune) master() *master {
	return m.world.masters[m.random.IntN(len(m.world.masters))]
}

// process returns a random running process, or nil.
func (m *misfortune) process() *process {
	all := m.world.running()
	if len(all) == 0 {
		return nil
	}
	return all[m.random.IntN(len(all))]
}

// lane returns a random lane of a running process.
func (m *misfortune) lane() *lane {
	p := m.process()
	if p == nil {
		return nil
	}
	return p.lanes[m.random.IntN(len(p.lanes))]
}

// lasting records a trouble of a master or a lane, and returns a function that
// ends it.
func lasting(c *calm, linger time.Duration, mend func()) func() {
	c.begin()
	return func() {
		mend()
		c.end(linger)
	}
}

// ofMaster makes a fault of a random master. Its consequences may linger.
func ofMaster(linger time.Duration, strike func(*misfortune, *master) (mend func())) func(*misfortune) func() {
	return func(m *misfortune) func() {
		n := m.master()
		n.calm.begin()
		mend := strike(m, n)
		return func() { mend(); n.calm.end(linger) }
	}
}

// ofLane does the same with a lane.
func ofLane(linger time.Duration, strike func(*misfortune, *lane) (mend func())) func(*misfortune) func() {
	return func(m *misfortune) func() {
		l := m.lane()
		if l == nil {
			return nil
		}
		l.calm.begin()
		mend := strike(m, l)
		return func() { mend(); l.calm.end(linger) }
	}
}

// ofDirection does the same with one direction of a lane, or both.
func ofDirection(linger time.Duration, strike func(*misfortune, *redistest.Link, redistest.Direction) (mend func())) func(*misfortune) func() {
	return ofLane(linger, func(m *misfortune, l *lane) func() {
		return strike(m, l.link, pick(m.random, redistest.Up, redistest.Down, redistest.Both))
	})
}

// crashEmpty restarts a master without its keys.
func (m *misfortune) crashEmpty() func() {
	master := m.master()
	if m.world.draw.durable[master.index] {
		return nil
	}
	master.absent.on()
	master.forget()
	mend := lasting(&master.calm, brief, master.absent.off)
	if m.random.IntN(2) == 0 {
		mend() // restart it at once, while what it forgot is still in use
		return nothing
	}
	return mend
}

// blackout restarts all masters without their keys, except durable ones.
func (m *misfortune) blackout() func() {
	var mends []func()
	for _, master := range m.world.masters {
		master.absent.on()
		if m.world.draw.durable[master.index] {
			master.node.RestartDurably()
		} else {
			master.forget()
		}
		mends = append(mends, lasting(&master.calm, brief, master.absent.off))
	}
	return func() {
		for _, mend := range mends {
			mend()
		}
	}
}

func (m *master) forget() {
	m.mu.Lock()
	m.forgot = time.Now()
	m.mu.Unlock()
	if m.leaps {
		m.node.Clock().Step(-time.Minute)
		defer m.node.Clock().Step(time.Minute)
	}
	before := m.node.DB()
	m.node.Restart()
	m.emptied(before)
}

// demote makes a master a replica of another, and a master again, in the same
// process. It gets the other's keys for its own: the seal is among them, locks
// are not (R23). At times all of it happens between two commands. Connections
// stay, or are cut at the beginning, as Sentinel does, or at the end.
func (m *misfortune) demote() func() {
	master := m.master()
	if m.world.draw.durable[master.index] {
		return nil
	}
	cut := func() {
		if m.random.IntN(3) == 0 {
			master.node.DropConns()
		}
	}
	mend := lasting(&master.calm, brief, nothing)
	cut()
	if m.random.IntN(2) == 0 {
		master.node.Between(func() {
			master.resync(m.random)
			master.node.Promote()
		})
		cut()
		return mend
	}
	master.node.Between(master.node.Follow)
	m.world.sleep(span(m.random, 20*ms)) // as long as a synchronisation takes to begin
	master.node.Between(func() { master.resync(m.random) })
	return func() {
		master.node.Between(master.node.Promote)
		cut()
		mend()
	}
}

// resync gives a master the keys of another one, which has its seal and its
// record of numbers, and some of the numbers.
func (m *master) resync(random *rand.Rand) {
	m.mu.Lock()
	m.forgot = time.Now()
	m.mu.Unlock()
	var kept []string
	for _, key := range m.node.Keys() {
		own := strings.HasPrefix(key, m.world.draw.prefix+"redlock:")
		if own || strings.HasSuffix(key, fenceSuffix) && random.IntN(2) == 0 {
			kept = append(kept, key)
		}
	}
	m.node.Resync(kept...)
}

// cutOff holds all lanes to one master, in one direction or both, like a
// network partition.
func (m *misfortune) cutOff(n *master) func() {
	up, down := m.random.IntN(3) > 0, m.random.IntN(3) > 0
	var held []*toggle
	for _, p := range m.world.running() {
		if up {
			held = append(held, &p.lanes[n.index].holdUp)
		}
		if down {
			held = append(held, &p.lanes[n.index].holdDown)
		}
	}
	return hold(held...)
}

// hold turns toggles on; the function that it returns turns them off.
func hold(all ...*toggle) func() {
	for _, s := range all {
		s.on()
	}
	return func() {
		for _, s := range all {
			s.off()
		}
	}
}

// flushScripts is SCRIPT FLUSH: the next client that runs a script has to load
// it again, which takes round trips (R24).
func (m *misfortune) flushScripts() func() {
	master := m.master()
	master.mu.Lock()
	defer master.mu.Unlock()
	if !master.flushed {
		master.flushed = true
		master.calm.begin() // until the scripts are loaded
	}
	master.node.FlushScripts()
	return nothing
}

// stepBack makes keys live longer. A step forward would end them early, and
// then nothing is promised.
func (m *misfortune) stepBack() func() {
	master := m.master()
	master.mu.Lock()
	master.stepped = time.Now()
	master.mu.Unlock()
	master.node.Clock().Step(-span(m.random, 200*ms))
	return nothing
}

// changeForm replaces a master by another version of the server, with a restart
// or under open connections (R25).
func (m *misfortune) changeForm(n *master) func() {
	n.node.Native(pick(m.random, []string{"DELEX"}, []string{"DELIFEQ"}, []string{"DELEX", "DELIFEQ"}, nil)...)
	if m.random.IntN(2) == 0 {
		n.node.DropConns()
	}
	return nothing
}

// refuse makes a master answer some of the commands with an error (R24).
func refuse(reply string, commands ...string) func(*misfortune) func() {
	return ofMaster(brief, func(m *misfortune, n *master) func() {
		these := commands
		if m.random.IntN(2) == 0 {
			these = []string{pick(m.random, commands...)}
		}
		n.node.Refuse(reply, these...)
		return func() { n.node.Refuse("", these...) }
	})
}

// cut resets connections after a number of bytes: in the middle of a handshake,
// of a command, of a reply.
func cut(d redistest.Direction) func(*misfortune) func() {
	return ofLane(brief, func(m *misfortune, l *lane) func() {
		set := l.link.Cut
		if m.random.IntN(2) == 0 {
			set = l.link.CutOnce
		}
		set(d, m.random.Int64N(3000))
		return func() { l.link.Cut(d, -1) }
	})
}

// chunk splits input at every byte, which takes no time and causes no trouble.
func (m *misfortune) chunk() func() {
	l := m.lane()
	if l == nil {
		return nil
	}
	d := pick(m.random, redistest.Up, redistest.Down, redistest.Both)
	l.link.Chunk(d, 1)
	return func() { l.link.Chunk(d, 0) }
}

// stopProcess is SIGSTOP of a client.
func (m *misfortune) stopProcess() func() {
	p := m.process()
	if p == nil {
		return nil
	}
	for _, l := range p.lanes {
		l.calm.begin()
	}
	p.stopped.on()
	return func() {
		p.stopped.off()
		for _, l := range p.lanes {
			l.calm.end(brief)
		}
	}
}

// crashProcess ends one client; another one starts in its place.
func (m *misfortune) crashProcess() func() {
	p := m.process()
	if p == nil || p.ctx.Err() != nil {
		return nil
	}
	p.crash(m.random.IntN(2) == 0)
	return nothing
}
