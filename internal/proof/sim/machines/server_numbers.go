package machines

import (
	"slices"
	"strconv"
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
	answer, ok := model.AcquireFenced(&texts{s, cmd}, model.Fenced{
		Locks: []string{lockKey}, Lasts: []string{lastKey}, Record: recordKey,
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
	db := &texts{s, cmd}
	last, _ := db.Get(lastKey)
	n, _ := strconv.ParseInt(last, 10, 64)
	if _, held := db.Get(lockKey); held {
		return reply{kind: isNumbered, n: model.Held, number: n}
	}
	db.Set(lastKey, strconv.FormatInt(n+1, 10), time.Hour)
	db.Set(lockKey, "", cmd.ttl)
	return reply{kind: isNumbered, n: model.Granted, number: n + 1}
}

// giveFloor is floor.lua.
func (s *server) giveFloor(g givenFloor) reply {
	done, ok := model.Floor(&texts{s, nil}, recordKey, sealKey, g.seal, g.run, g.floor)
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
	lockKey   = "lock"
	lastKey   = "last"
	recordKey = "record"
	sealKey   = "seal"
)

func (t *texts) resource() int { return t.cmd.attempt.resources[0] }

func (t *texts) Get(name string) (value string, ok bool) {
	s, broken := t.server, t.server.world.broken
	switch name {
	case lockKey:
		if a := s.look(t.resource()); a != nil {
			return strconv.FormatUint(a.token, 10), true
		}
		return "", false
	case lastKey:
		value, ok = s.numbers.last[t.resource()].text(s.ms())
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

// misread breaks the rules of Broken about the record, for one resource's
// script: what is written is always right.
func (t *texts) misread(record string) string {
	broken := t.server.world.broken
	r, err := pure.ParseRecord(record)
	if t.cmd == nil || err != nil {
		return record
	}
	_, known := t.server.numbers.last[t.resource()].text(t.server.ms())
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
	switch name {
	case lockKey:
		s.put(t.cmd, t.resource())
	case lastKey:
		// A last number outlives its period by an hour. Here it is less, as periods
		// are shorter.
		h := &s.numbers.last[t.resource()]
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
