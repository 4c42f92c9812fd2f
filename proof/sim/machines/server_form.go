package machines

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/lua/model"
)

// formKeys are what a server has of locks of a form, beside plain keys.
type formKeys struct {
	readers [][]key         // by resource
	ends    []time.Duration // of that set, by resource
	values  map[formValue]*history
}

type formValue struct {
	resource int
	name     string
}

func newFormKeys(resources int) formKeys {
	return formKeys{make([][]key, resources), make([]time.Duration, resources), make(map[formValue]*history)}
}

// forgetForms forgets what was written after since. It reports whether that
// was a lock.
func (s *server) forgetForms(since time.Duration) (some bool) {
	for i, readers := range s.readers {
		s.readers[i] = slices.DeleteFunc(readers, func(k key) bool { return k.set >= since })
		some = some || len(s.readers[i]) < len(readers)
	}
	for _, h := range s.values {
		h.unwrite(since)
	}
	return some
}

// findForm returns the key of an attempt that has a form, or nil.
func (s *server) findForm(a *attempt) *key {
	resource, plan := a.resources[0], &s.world.plan
	switch a.form.kind {
	case reading:
		for i := range s.readers[resource] {
			if k := &s.readers[resource][i]; k.attempt == a && s.ms() < min(k.ends, s.ends[resource]) {
				return k
			}
		}
		return nil
	case permit:
		for n := range plan.permits {
			if i := plan.permitKey(resource, n); s.look(i) == a {
				return &s.keys[i]
			}
		}
		return nil
	}
	if s.look(resource) == a {
		return &s.keys[resource]
	}
	return nil
}

// The names of the keys of a form, for the scripts. A permit's is a number
// behind permitKeys, and a lease's a waiter behind leaseKeys.
const (
	formKey    = "lock"
	readersKey = "readers"
	markKey    = "mark"
	permitsKey = "permits"
	queueKey   = "queue"
	ticketKey  = "ticket"
	turnKey    = "turn"
	permitKeys = "#"
	leaseKeys  = "lease "
)

var rwKeys = model.RWKeys{Writer: formKey, Readers: readersKey, Mark: markKey}

// runForm runs a program of a lock that has a form.
func (s *server) runForm(cmd *command) (r reply) {
	a := cmd.attempt
	db, value := &formTexts{s, cmd, a.resources[0]}, strconv.FormatUint(a.token, 10)
	switch a.form.kind {
	case reading:
		r = reply{kind: isInteger, n: s.runReader(cmd, db, value)}
	case writing:
		r = reply{kind: isInteger, n: s.runWriter(cmd, db, value)}
	case permit:
		r = s.runPermit(cmd, db, value)
	default:
		r = s.runFair(cmd, db, value)
	}
	if r.kind == isInteger && r.n > 0 && cmd.op == extend {
		a.due = max(a.due, s.world.now+cmd.ttl)
	}
	return r
}

// unix is the server's clock as scripts read it.
func (s *server) unix() time.Time { return time.UnixMilli(s.ms().Milliseconds()) }

func (s *server) runReader(cmd *command, db *formTexts, value string) int {
	w, a, now, was := s.world, cmd.attempt, s.unix(), ""
	if cmd.op != release && w.broken.is(ReaderByClientsClock) {
		now = time.UnixMilli(a.process.wall.at(cmd.at).Milliseconds())
	}
	if other := a.form.other; other != nil {
		was = strconv.FormatUint(other.token, 10)
	}
	switch {
	case cmd.op == release:
		return model.ReleaseRead(db, readersKey, formKey, value, was, now)
	case cmd.op == extend:
		return model.ExtendRead(db, readersKey, value, cmd.ttl, now)
	case was != "" && !w.broken.is(DowngradeInTwo):
		return model.Downgrade(db, rwKeys, was, value, cmd.ttl, now)
	}
	return model.Read(db, rwKeys, value, cmd.ttl, now)
}

func (s *server) runWriter(cmd *command, db *formTexts, value string) int {
	f, own := cmd.attempt.form, ""
	if f.other != nil {
		own = strconv.FormatUint(f.other.token, 10)
	}
	switch {
	case cmd.op == release:
		if own != "" && !f.granted && s.world.broken.is(UndoDropsReader) {
			model.ReleaseRead(db, readersKey, formKey, own, "", s.unix())
		}
		return model.ReleaseMarked(db, formKey, markKey, value)
	case cmd.op == extend:
		return model.Extend(db, formKey, value, cmd.ttl, cmd.ttl)
	}
	n, _ := model.Write(db, rwKeys, value, cmd.ttl, own, f.mark, s.unix())
	return n
}

func (s *server) runPermit(cmd *command, db *formTexts, value string) reply {
	f := cmd.attempt.form
	number := f.number
	if s.world.broken.is(PermitsCounted) {
		number = s.anyPermit(cmd)
	}
	name := permitKeys + strconv.Itoa(number)
	switch cmd.op {
	case release:
		return reply{kind: isInteger, n: model.ReleaseMarked(db, name, markKey, value)}
	case extend:
		return reply{kind: isInteger, n: model.ExtendPermit(db, name, permitsKey, value, cmd.ttl, cmd.ttl, f.permits, s.unix())}
	}
	granted, free, ok := model.AcquirePermit(db, model.Permit{
		Key: name, Record: permitsKey, Mark: markKey, Value: value, TTL: cmd.ttl,
		Permits: f.permits, Number: number, Names: permitKeys, Waits: f.mark,
	}, s.unix())
	switch {
	case !ok:
		panic("machines: a record of permits of another form")
	case !granted:
		return reply{kind: isText, text: model.FreePermits(free)}
	}
	return reply{kind: isInteger, n: 1}
}

// anyPermit is a planted bug: it returns the number of a permit that the
// attempt has on this server, or else of one that is free, as if permits were
// counted.
func (s *server) anyPermit(cmd *command) int {
	plan, resource := &s.world.plan, cmd.attempt.resources[0]
	for _, owner := range [...]*attempt{cmd.attempt, nil} {
		for n := range cmd.attempt.form.permits {
			if s.look(plan.permitKey(resource, n)) == owner {
				return n
			}
		}
	}
	return cmd.attempt.form.number
}

func (s *server) runFair(cmd *command, db *formTexts, value string) reply {
	f := cmd.attempt.form
	waiter := f.turn.name()
	switch cmd.op {
	case release:
		return reply{kind: isInteger, n: model.ReleaseFair(db, formKey, queueKey, turnKey, leaseKeys+waiter, value, waiter, f.granted)}
	case extend:
		return reply{kind: isInteger, n: model.Extend(db, formKey, value, cmd.ttl, cmd.ttl)}
	}
	mode := f.mode
	if mode == "new" && s.world.broken.is(TicketNotCompared) {
		mode = "keep"
	}
	had := f.turn != nil && s.queues(cmd.attempt.resources[0], f.turn)
	granted, text := model.AskFair(db, model.Question{
		Key: formKey, Queue: queueKey, Highest: ticketKey, Holder: turnKey, Lease: leaseKeys + waiter,
		Value: value, TTL: cmd.ttl, Waiter: waiter, Ticket: f.ticket, Mode: mode, Leases: leaseTime, Names: leaseKeys,
	})
	if f.turn != nil && !had {
		f.turn.since[s.index] = s.world.now
	}
	if !granted {
		return reply{kind: isText, text: text}
	}
	return reply{kind: isInteger, n: 1}
}

// queues reports whether a caller has a place in the server's queue, and its
// lease lives.
func (s *server) queues(resource int, u *turn) bool {
	db := &formTexts{s, nil, resource}
	queue, _ := db.Get(queueKey)
	_, lives := db.Get(leaseKeys + u.name())
	return lives && strings.Contains(queue, " "+u.name()+"\n")
}

// formTexts are the keys of a server that concern one lock of a form, as a
// script sees them for one command.
type formTexts struct {
	server   *server
	cmd      *command
	resource int
}

// index returns the place of a plain key.
func (t *formTexts) index(name string) (i int, ok bool) {
	if name == formKey {
		return t.resource, true
	}
	number, ok := strings.CutPrefix(name, permitKeys)
	n, _ := strconv.Atoi(number)
	return t.server.world.plan.permitKey(t.resource, n), ok
}

// misses is for Broken: a script does not see the readers, or the writer.
func (t *formTexts) misses(name string) bool {
	broken := t.server.world.broken
	if t.cmd == nil || t.cmd.op != set {
		return false
	}
	switch f := t.cmd.attempt.form; {
	case f.is(reading):
		return f.other == nil && name == formKey && broken.is(ReaderIgnoresWriter)
	case f.is(writing) && name == readersKey:
		return f.other == nil && broken.is(WriterIgnoresReaders) || f.other != nil && broken.is(UpgradeBesideReaders)
	}
	return false
}

func (t *formTexts) Get(name string) (value string, ok bool) {
	s := t.server
	if t.misses(name) {
		return "", false
	}
	if i, ok := t.index(name); ok {
		a := s.look(i)
		if a == nil {
			return "", false
		}
		return strconv.FormatUint(a.token, 10), true
	}
	if name == readersKey {
		return t.readersText()
	}
	if h := s.values[formValue{t.resource, name}]; h != nil {
		return h.text(s.ms())
	}
	return "", false
}

func (t *formTexts) readersText() (string, bool) {
	s, r := t.server, t.resource
	if s.ms() >= s.ends[r] {
		s.readers[r] = nil
	}
	var text strings.Builder
	for _, k := range s.readers[r] {
		text.WriteString(strconv.FormatInt(k.ends.Milliseconds(), 10) + " " + strconv.FormatUint(k.attempt.token, 10) + "\n")
	}
	return text.String(), len(s.readers[r]) > 0
}

func (t *formTexts) Set(name, value string, ttl time.Duration) {
	s := t.server
	if i, ok := t.index(name); ok {
		s.put(t.cmd, i)
		return
	}
	if name == readersKey {
		t.setReaders(value, ttl)
		return
	}
	if strings.HasPrefix(name, leaseKeys) && s.world.broken.is(NoLease) {
		ttl = time.Hour
	}
	t.write(name, written{value, s.world.now, s.ms() + ttl})
}

func (t *formTexts) write(name string, n written) {
	of := formValue{t.resource, name}
	h := t.server.values[of]
	if h == nil {
		h = new(history)
		t.server.values[of] = h
	}
	h.write(n, 2*t.server.world.plan.ttl)
}

// setReaders makes the readers those of the text. One that was not there is the
// command's own.
func (t *formTexts) setReaders(text string, ttl time.Duration) {
	s, r := t.server, t.resource
	old := s.readers[r]
	s.readers[r] = nil
	for line := range strings.Lines(text) {
		first, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, _ := strconv.ParseInt(first, 10, 64)
		token, _ := strconv.ParseUint(value, 10, 64)
		k, ends := t.server.newKey(t.cmd), time.Duration(n)*ms
		if i := slices.IndexFunc(old, func(k key) bool { return k.attempt.token == token }); i >= 0 {
			k = old[i]
		}
		if k.ends != ends {
			k.ends, k.ttl, k.set = ends, t.cmd.ttl, s.world.now
		}
		s.readers[r] = append(s.readers[r], k)
	}
	s.ends[r] = s.ms() + ttl
	if s.world.broken.is(ReadersShareTTL) && t.cmd.op != release {
		s.ends[r] = s.ms() + t.cmd.ttl
	}
}

func (t *formTexts) Delete(name string) bool {
	if i, ok := t.index(name); ok {
		t.server.keys[i] = key{}
		return true
	}
	if name == readersKey {
		t.server.readers[t.resource] = nil
		return true
	}
	t.write(name, written{"", t.server.world.now, 0})
	return true
}

func (t *formTexts) TTL(name string) (time.Duration, bool) {
	s := t.server
	var ends time.Duration
	if i, ok := t.index(name); ok {
		ends = s.keys[i].ends
	} else if name == readersKey {
		ends = s.ends[t.resource]
	} else if h := s.values[formValue{t.resource, name}]; h != nil && len(*h) > 0 {
		ends = (*h)[len(*h)-1].ends
	}
	return max(0, ends-s.ms()), ends > s.ms()
}

func (t *formTexts) Expire(name string, ttl time.Duration) bool {
	if i, ok := t.index(name); ok {
		return (&store{t.server, t.cmd}).Expire(i, ttl)
	}
	value, ok := t.Get(name)
	if ok {
		t.Set(name, value, ttl)
	}
	return ok
}

var _ model.Keys[string, string] = (*formTexts)(nil)
