package machines

import (
	"slices"
	"strconv"
	"time"

	"github.com/redmux/redmux/internal/lua/model"
	"github.com/redmux/redmux/internal/pure"
)

// A server is one master: keys that expire by its own clock, a seal and an
// opening, and its faults.
type server struct {
	world *world
	index int
	clock clock
	run   int64 // the run id; a new one after each start
	lives int64 // replication history: a new one then, and when the server was a replica
	past  past
	keys  []key // by resource, and then permits
	formKeys

	down          int // faults that keep it down
	stopped       int // faults that keep it stopped
	refusesSets   int // faults for which it refuses to write
	refusesScript int // faults for which it refuses scripts
	knowsScripts  bool
	forbidsKill   bool // CLIENT KILL is not permitted
	hidesRun      bool // nor is INFO
	durable       bool // it loses nothing in a crash, and the clients know that
	numbers       memory
	turnedBack    time.Duration
	forgot        time.Duration // when it last forgot something
	steppedAt     time.Duration // when its clock was last stepped forward within the drift
	wires         []*wire       // to the running process, the oldest first
}

// A key is the key of one resource, or what a set of readers has of one reader;
// without an attempt there is none.
type key struct {
	attempt *attempt
	ends    time.Duration // by the server's clock, in whole milliseconds
	ttl     time.Duration // the last TTL that it was given
	set     time.Duration // true time of that
	wire    *wire         // the connection that brought the SET or the healing,
	asked   time.Duration // and its TTL, for the referee
}

func newServer(w *world, index int) *server {
	s := &server{world: w, index: index, keys: make([]key, w.plan.keys()), knowsScripts: true}
	s.formKeys = newFormKeys(w.plan.resources)
	s.numbers.last = make([]history, w.plan.resources)
	s.clock = clock{ppm: w.plan.rate(w.random), base: w.nearly(0)}
	s.forbidsKill = w.plan.forbidKill && w.oneIn(2)
	s.hidesRun = w.plan.hideRun && w.oneIn(2)
	s.durable = w.plan.durable && w.oneIn(2)
	s.steppedAt, s.forgot = -time.Hour, -time.Hour
	s.begin(w.plan.age(w.random))
	s.past.promoted = w.oneIn(8)
	return s
}

// begin starts a process that says that it has run for so long already.
func (s *server) begin(age time.Duration) {
	s.past.promoted, s.past.replaces = false, false
	s.startedAgo(age)
	s.world.runs++
	s.run, s.lives = s.world.runs, s.world.runs
	s.knowsScripts = true
}

func (s *server) startedAgo(age time.Duration) {
	s.past.since = s.second() - age.Truncate(time.Second)
	if s.world.broken.is(ClockStepsAfterStart) {
		s.past.since -= 20 * time.Second // the clock was slow, and is set right
	}
}

// ms returns the server's clock in the resolution in which it computes expiry.
func (s *server) ms() time.Duration { return s.clock.at(s.world.now).Truncate(time.Millisecond) }

// look returns the owner of a resource's key, or nil. A key may expire up to a
// millisecond early, because the server's clock is truncated.
func (s *server) look(resource int) *attempt {
	k := &s.keys[resource]
	if k.attempt != nil && s.ms() >= k.ends {
		*k = key{}
	}
	return k.attempt
}

// find returns an attempt's key for one of its resources, or nil.
func (s *server) find(a *attempt, resource int) *key {
	if a.form != nil {
		return s.findForm(a)
	}
	if s.look(resource) == a {
		return &s.keys[resource]
	}
	return nil
}

// each does something for each key that is there.
func (s *server) each(do func(k *key)) {
	for i := range s.keys {
		if s.look(i) != nil {
			do(&s.keys[i])
		}
	}
	for resource, readers := range s.readers {
		for i := range readers {
			if k := &readers[i]; s.ms() < min(k.ends, s.ends[resource]) {
				do(k)
			}
		}
	}
}

// has reports whether a key of an attempt is there.
func (s *server) has(a *attempt) bool {
	return slices.ContainsFunc(a.resources, func(resource int) bool { return s.find(a, resource) != nil })
}

// hasAll reports whether all keys of an attempt are there.
func (s *server) hasAll(a *attempt) bool {
	return !slices.ContainsFunc(a.resources, func(resource int) bool { return s.find(a, resource) == nil })
}

// keeps reports whether an attempt's keys have its token, and live as long as
// its holder may believe.
func (s *server) keeps(a *attempt) bool {
	left := a.due - s.world.now
	if a.form != nil {
		k := s.findForm(a)
		return k != nil && k.ends-s.ms() >= left-left/100-2*ms
	}
	return !slices.ContainsFunc(a.resources, func(resource int) bool {
		there := s.look(resource)
		return there == nil || there.token != a.token || s.keys[resource].ends-s.ms() < left-left/100-2*ms
	})
}

// receive handles an arriving command.
func (s *server) receive(c *wire, cmd *command) {
	switch {
	case c.closed:
	case s.down > 0:
		c.close()
	case c.run != 0 && c.run != s.run:
		c.close()
	case s.stopped > 0 || c.unread:
		c.stalled = append(c.stalled, cmd)
		if c.run == 0 {
			c.run = s.run // the kernel has accepted the connection
			s.wires = append(s.wires, c)
		}
	default:
		s.execute(c, cmd)
	}
}

// goOn continues the server. It reads the connections in any order, and some of
// them a little later than others, so a new command may be executed before one
// that has waited (R8).
func (s *server) goOn() {
	waiting := slices.DeleteFunc(slices.Clone(s.wires), func(c *wire) bool { return len(c.stalled) == 0 })
	s.world.random.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
	for _, c := range waiting {
		c.unread = true
		if s.world.oneIn(2) {
			s.world.after(s.world.span(5*ms), func() { s.read(c) })
			continue
		}
		s.read(c)
	}
}

// read executes what a connection brought while the server was stopped.
func (s *server) read(c *wire) {
	if s.stopped > 0 {
		return // stopped again; it will be read later
	}
	c.unread = false
	commands := c.stalled
	c.stalled = nil
	for _, cmd := range commands {
		if c.closed || c.run != s.run {
			return
		}
		s.execute(c, cmd)
	}
	c.closed = c.closed || c.broken
}

// execute executes a command.
func (s *server) execute(c *wire, cmd *command) {
	if cmd.op == hello && c.run == 0 {
		c.run = s.run
		s.wires = slices.DeleteFunc(s.wires, func(c *wire) bool { return c.closed })
		s.wires = append(s.wires, c)
	}
	r := s.result(cmd)
	if c.broken && !c.process.dead {
		s.world.report.Count("executed after the end of their connection", 1)
	}
	if a := cmd.attempt; a != nil {
		s.world.step("server %d: operation %d of attempt %d: %d %d",
			int64(s.index), int64(cmd.op), int64(a.index), int64(r.kind), int64(r.n))
	} else {
		s.world.step("server %d: operation %d: %d %d", int64(s.index), int64(cmd.op), int64(r.kind), int64(r.n))
	}
	s.judge(c, cmd, r)
	c.answer(cmd, r)
}

// judge records the outcome of a lock command for the referee.
func (s *server) judge(c *wire, cmd *command, r reply) {
	a := cmd.attempt
	if a == nil {
		return
	}
	w := s.world
	granted := r.kind == isOK && cmd.op == set || r.kind == isInteger && r.n > 0 ||
		r.kind == isNumbered && (r.n == model.Granted || r.n == model.GrantedBlind)
	restored := cmd.op == heal && r.n == 2
	for _, resource := range a.resources {
		if k := s.find(a, resource); k != nil && k.wire == nil { // it was set by this
			k.wire, k.asked = c, cmd.ttl
		}
	}
	if has := s.hasAll(a); cmd.op == set && (granted && !has || !granted && s.has(a) && !has) {
		w.violate("part", "server %d has a part of the keys of attempt %d", s.index, a.index)
	}
	switch {
	case cmd.op == release:
		if r.kind == isInteger {
			a.released |= bit(s.index)
		}
	case restored && w.plan.quarantine && !w.plan.flushes && w.now-s.forgot < w.plan.ttl:
		// It may have forgotten that another client has the lock, so it proves
		// nothing (R10, R23).
	case granted:
		cmd.granted |= bit(s.index)
		switch {
		case cmd.op != set || !a.released.Has(s.index):
		case s.forbidsKill:
			w.report.Count("SETs behind their release, where CLIENT KILL is forbidden", 1)
			w.referee.repeats(a, s, c, cmd.ttl)
		default:
			w.violate("R8", "server %d executed the SET of attempt %d after the release that undoes it", s.index, a.index)
		}
	}
}

func (s *server) result(cmd *command) reply {
	writes := cmd.creates() || cmd.op == giveFloor || cmd.op == changeSeal && cmd.change.Verb != pure.Undo
	switch {
	case cmd.script() && !s.knowsScripts:
		return reply{kind: isNoScript}
	case s.refusesSets > 0 && writes, s.refusesScript > 0 && cmd.script():
		return reply{kind: isError}
	case cmd.op == kill && s.forbidsKill:
		return reply{kind: isError}
	}
	switch cmd.op {
	case hello:
		s.knowsScripts = true // the handshake loads them (R21)
		if s.hidesRun {
			return reply{kind: isOK}
		}
		return reply{kind: isOK, run: s.run, uptime: s.second() - s.past.since, promoted: s.past.promoted, process: s.name()}
	case load:
		s.knowsScripts = true
		return reply{kind: isOK}
	case kill:
		return s.kill(cmd.target)
	case lookSeal:
		return reply{kind: isOK, mark: model.Mark{Seal: s.mark().Seal}}
	case lookOpening:
		return reply{kind: isOK, mark: model.Mark{Opening: s.mark().Opening}, clock: s.clock.at(s.world.now)}
	case changeSeal:
		return s.changeSeal(cmd.change)
	case lookRecord:
		record, _ := s.numbers.record.text(s.ms())
		return reply{kind: isOK, record: record}
	case giveFloor:
		return s.giveFloor(cmd.floor)
	case set:
		return s.set(cmd)
	default:
		return s.script(cmd)
	}
}

func (s *server) kill(target *wire) reply {
	if target.closed || target.run != s.run {
		return reply{kind: isInteger}
	}
	target.closed, target.stalled = true, nil
	return reply{kind: isInteger, n: 1}
}

func (s *server) set(cmd *command) reply {
	a := cmd.attempt
	switch {
	case a.form != nil:
		return s.runForm(cmd)
	case a.number > 0:
		return s.setFenced(cmd)
	case len(a.resources) > 1:
		return s.setAll(cmd)
	case s.look(a.resources[0]) != nil && !s.world.broken.is(WithoutNX):
		return reply{kind: isNull}
	}
	s.put(cmd, a.resources[0])
	return reply{kind: isOK}
}

// setAll is acquire_all.lua.
func (s *server) setAll(cmd *command) reply {
	a := cmd.attempt
	if granted, kept := s.world.broken.is(PartGranted), s.world.broken.is(PartKept); granted || kept {
		n := 1
		for _, resource := range a.resources {
			if there := s.look(resource); there == nil || kept && there.token == a.token {
				s.put(cmd, resource)
			} else if kept {
				n = -1
			}
		}
		return reply{kind: isInteger, n: n}
	}
	return reply{kind: isInteger, n: model.AcquireAll(&store{s, cmd}, a.resources, a.token, cmd.ttl)}
}

func (s *server) put(cmd *command, resource int) {
	s.keys[resource] = s.newKey(cmd)
}

func (s *server) newKey(cmd *command) key {
	cmd.attempt.due = max(cmd.attempt.due, s.world.now+cmd.ttl)
	return key{attempt: cmd.attempt, ends: s.ms() + cmd.ttl, ttl: cmd.ttl, set: s.world.now}
}

// script runs a Lua program as package model has it, unless the program is
// broken on purpose.
func (s *server) script(cmd *command) reply {
	a := cmd.attempt
	if a.form != nil {
		return s.runForm(cmd)
	}
	resource := a.resources[0]
	there := s.look(resource)
	db := &store{s, cmd}
	if there != nil && there.token == a.token && cmd.op != release {
		there.due = max(there.due, s.world.now+cmd.ttl)
		if s.world.broken.is(ShorteningExtension) {
			db.Expire(resource, cmd.ttl)
		}
	}
	var n int
	switch {
	case len(a.resources) > 1:
		n = s.scriptAll(cmd)
	case cmd.op == release && there != nil && s.world.broken.is(PlainDEL):
		db.Delete(resource)
		n = 1
	case cmd.op == release:
		n = model.Release(db, resource, a.token)
	case cmd.op == heal:
		n = model.Heal(db, resource, a.token, cmd.ttl, cmd.ttl)
	default:
		n = model.Extend(db, resource, a.token, cmd.ttl, cmd.ttl)
	}
	return reply{kind: isInteger, n: n}
}

// scriptAll runs the program for a lock on several resources.
func (s *server) scriptAll(cmd *command) int {
	a, db := cmd.attempt, &store{s, cmd}
	switch {
	case cmd.op == release:
		return model.ReleaseAll(db, a.resources, a.token)
	case s.world.broken.is(PartExtended):
		model.Extend(db, a.resources[0], a.token, cmd.ttl, cmd.ttl)
		return 1
	}
	return model.ExtendAll(db, a.resources, a.token, cmd.ttl, cmd.ttl)
}

// A store is the keys of a server as a script sees them, for one command.
type store struct {
	server *server
	cmd    *command
}

func (t *store) Get(resource int) (token uint64, ok bool) {
	a := t.server.look(resource)
	if a == nil {
		return 0, false
	}
	return a.token, true
}

func (t *store) Set(resource int, _ uint64, _ time.Duration) { t.server.put(t.cmd, resource) }

func (t *store) Delete(resource int) bool {
	t.server.keys[resource] = key{}
	return true
}

func (t *store) TTL(resource int) (time.Duration, bool) {
	return t.server.keys[resource].ends - t.server.ms(), true
}

func (t *store) Expire(resource int, ttl time.Duration) bool {
	k := &t.server.keys[resource]
	k.ends, k.ttl, k.set = t.server.ms()+ttl, ttl, t.server.world.now
	return true
}

// crash ends the process and all connections. Another one takes its place,
// without what was written after since. Usually it is new.
func (s *server) crash(since time.Duration) {
	for _, c := range s.wires {
		c.close()
	}
	s.wires = nil
	s.forget(since)
	s.begin(0)
}

// name returns the name of the process, as clients that may ask for the run id
// see it. A process that was a replica names its former history, too.
func (s *server) name() string {
	history := strconv.FormatInt(s.lives, 10)
	if s.past.promoted {
		history += ":0:1"
	}
	if s.world.broken.is(HistoryIgnored) {
		history = ""
	}
	return pure.ProcessName(strconv.FormatInt(s.run, 10), history)
}

// demote makes the server a replica, and a master again. Its seal, its opening
// and its record of numbers came back with the other's keys. Connections are
// cut, as Sentinel does: what a server says on those that stay is left out here.
func (s *server) demote() {
	for _, c := range s.wires {
		c.close()
	}
	s.wires = nil
	s.forgetLocks(0)
	for i := range s.numbers.last {
		s.numbers.last[i].unwrite(0)
	}
	s.world.runs++
	s.lives, s.past.promoted = s.world.runs, true
}

// forget forgets what was written after since.
func (s *server) forget(since time.Duration) {
	s.unwrite(since)
	s.numbers.unwrite(since)
	s.forgetLocks(since)
}

// forgetLocks forgets keys of locks that were written after since.
func (s *server) forgetLocks(since time.Duration) {
	for resource := range s.keys {
		if k := &s.keys[resource]; k.attempt != nil && k.set >= since {
			*k = key{}
			s.forgot = s.world.now
		}
	}
	if s.forgetForms(since) {
		s.forgot = s.world.now
	}
}
