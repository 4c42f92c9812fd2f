package machines

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/lua/model"
	"github.com/redmux/redmux/internal/pure"
)

// A memory is what a server remembers of fencing numbers (docs/fencing.md).
type memory struct {
	record history
	last   []history // by resource
}

func (m *memory) unwrite(since time.Duration) {
	m.record.unwrite(since)
	for i := range m.last {
		m.last[i].unwrite(since)
	}
}

// A history is a value and what it was before, the last at the end: a server
// may come back without the last writes.
type history []written

type written struct {
	text string
	at   time.Duration // true time
	ends time.Duration // by the server's clock; pure.Never: not
}

// text returns the value at a time of the server's clock.
func (h history) text(now time.Duration) (text string, ok bool) {
	if len(h) == 0 || now >= h[len(h)-1].ends {
		return "", false
	}
	return h[len(h)-1].text, true
}

// write sets the value, and forgets those that no restart brings back: all but
// the last of those that are so old.
func (h *history) write(n written, old time.Duration) {
	*h = append(*h, n)
	for len(*h) > 1 && (*h)[1].at < n.at-old {
		*h = (*h)[1:]
	}
}

func (h *history) unwrite(since time.Duration) {
	*h = slices.DeleteFunc(*h, func(v written) bool { return v.at >= since })
}

// setFenced is acquire_fenced.lua.
func (s *server) setFenced(cmd *command) reply {
	w, a := s.world, cmd.attempt
	if w.broken.is(CounterForEach) {
		return s.count(cmd)
	}
	locks, lasts := namesOf(a.resources)
	answer, ok := model.AcquireFenced(&texts{s, cmd}, model.Fenced{
		Locks: locks, Lasts: lasts, Record: recordKey,
		Token: strconv.FormatUint(a.token, 10), TTL: cmd.ttl,
		Number: a.number, Lead: w.plan.lead.Microseconds(), Period: w.plan.period,
	}, timeOf(0, s.clock.at(w.now)))
	if !ok {
		panic("machines: a number or a record of another form")
	}
	return reply{kind: isNumbered, n: answer.Code, number: answer.Number}
}

// count is a planted bug: another protocol, in which each server counts for
// itself, and the number of a lock is the highest of its quorum's.
func (s *server) count(cmd *command) reply {
	db, highest, held := &texts{s, cmd}, int64(0), false
	locks, lasts := namesOf(cmd.attempt.resources)
	for i := range locks {
		last, _ := db.Get(lasts[i])
		n, _ := strconv.ParseInt(last, 10, 64)
		_, there := db.Get(locks[i])
		highest, held = max(highest, n), held || there
	}
	if held {
		return reply{kind: isNumbered, n: model.Held, number: highest}
	}
	for i := range locks {
		db.Set(lasts[i], strconv.FormatInt(highest+1, 10), time.Hour)
		db.Set(locks[i], "", cmd.ttl)
	}
	return reply{kind: isNumbered, n: model.Granted, number: highest + 1}
}

// giveFloor is floor.lua.
func (s *server) giveFloor(g givenFloor) reply {
	done, ok := model.Floor(&texts{s, nil}, recordKey, sealKey, g.seal, g.run, g.floor, model.NoMost)
	switch {
	case !ok:
		panic("machines: a record of another form")
	case !done:
		return reply{kind: isInteger}
	}
	return reply{kind: isInteger, n: 1}
}

// texts are the keys of a server that concern fencing numbers, as a script sees
// them for one command.
type texts struct {
	server *server
	cmd    *command
}

const (
	recordKey = "record"
	sealKey   = "seal"
	lockKeys  = "lock" // and the number of the resource
	lastKeys  = "last" // the same
)

// namesOf returns the names of the keys of resources.
func namesOf(resources []int) (locks, lasts []string) {
	for _, resource := range resources {
		locks = append(locks, lockKeys+strconv.Itoa(resource))
		lasts = append(lasts, lastKeys+strconv.Itoa(resource))
	}
	return locks, lasts
}

// split returns the kind of a key, and its resource if there is one for each.
func split(name string) (kind string, resource int) {
	kind = strings.TrimRight(name, "0123456789")
	resource, _ = strconv.Atoi(name[len(kind):])
	return kind, resource
}

func (t *texts) Get(name string) (value string, ok bool) {
	s, broken := t.server, t.server.world.broken
	switch kind, resource := split(name); kind {
	case lockKeys:
		if a := s.look(resource); a != nil {
			return strconv.FormatUint(a.token, 10), true
		}
		return "", false
	case lastKeys:
		value, ok = s.numbers.last[resource].text(s.ms())
		if n, _ := strconv.ParseInt(value, 10, 64); ok && broken.is(EqualGranted) {
			value = strconv.FormatInt(n-1, 10)
		}
		return value, ok && !broken.is(NotCompared)
	case recordKey:
		value, ok = s.numbers.record.text(s.ms())
		return t.misread(value), ok
	}
	seal := s.mark().Seal
	return seal.String(), seal != pure.Seal{}
}

// misread breaks the rules of Broken about the record, for the script that
// sets a lock: what is written is always right.
func (t *texts) misread(record string) string {
	broken := t.server.world.broken
	r, err := pure.ParseRecord(record)
	if t.cmd == nil || err != nil {
		return record
	}
	known := !slices.ContainsFunc(t.cmd.attempt.resources, func(resource int) bool {
		_, ok := t.server.numbers.last[resource].text(t.server.ms())
		return !ok
	})
	switch {
	case broken.is(NotCompared), broken.is(MissingIsZero) && !known:
		r.Floor, r.Prev = min(r.Floor, 0), 0
	case broken.is(FloorIgnored):
		r.Floor = min(r.Floor, 0)
	}
	return r.String()
}

func (t *texts) Set(name, value string, ttl time.Duration) {
	s, w := t.server, t.server.world
	switch kind, resource := split(name); kind {
	case lockKeys:
		s.put(t.cmd, resource)
	case lastKeys:
		// A last number outlives its period by an hour. Here it is less, as periods
		// are shorter.
		h := &s.numbers.last[resource]
		if old, ok := h.text(s.ms()); ok && w.broken.is(NotCompared) {
			value = max(value, old) // of as many digits
		}
		h.write(written{value, w.now, s.ms() + min(ttl, w.plan.period+periodMargin)}, 2*w.plan.ttl)
	case recordKey:
		s.numbers.record.write(written{value, w.now, pure.Never}, 2*w.plan.ttl)
	}
}

// periodMargin is for how long a last number outlives its period: longer than
// clocks are turned back at a time.
const periodMargin = 2 * time.Second

func (t *texts) Delete(string) bool { panic("machines: no script deletes numbers") }

func (t *texts) TTL(string) (time.Duration, bool) { panic("machines: no script asks for it") }

func (t *texts) Expire(string, time.Duration) bool { panic("machines: no script needs it") }
