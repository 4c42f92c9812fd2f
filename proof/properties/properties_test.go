package properties

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redmux/redmux/internal/pure"
)

const ms = time.Millisecond

// A node's life under any server: it never dials more than 75 times in a
// minute, including the second connection of an attempt (R26); it is never up
// before the fence that it owes (R8); it never waits longer than its bounds;
// and it always does what its state says.
func TestLifeUnderAnyServer_R8_R26(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jitter := rapid.Float64Range(0, 0.999)
		some := rapid.Map(rapid.IntRange(0, 3000), func(n int) time.Duration { return time.Duration(n) * ms })
		l, now, owes := pure.NewLife(), time.Duration(0), false
		var dials []time.Duration
		l, act := l.On(pure.Started, now, 0)
		// Random failures alone never reach the highest rate of dials: some
		// servers fail at once, and always in the same way.
		stubborn := rapid.Bool().Draw(t, "stubborn")
		for range rapid.IntRange(1, 400).Draw(t, "events") {
			event := pure.Waited
			switch act {
			case pure.ToDial:
				require.Equal(t, pure.Dialing, l.State)
				dials = append(dials, now)
				event = pure.DialFailed
				if !stubborn {
					event = rapid.SampledFrom([]pure.LifeEvent{pure.Dialed, pure.Dialed, pure.DialFailed, pure.DialFailed, pure.DialBarred}).Draw(t, "dial")
				}
				if event == pure.DialFailed && (stubborn || rapid.Bool().Draw(t, "twice")) { // a server without HELLO is dialed again (R21)
					dials = append(dials, now)
					l = l.Charge()
				}
			case pure.ToFence:
				require.Equal(t, pure.Fencing, l.State)
				require.True(t, owes)
				event = rapid.SampledFrom([]pure.LifeEvent{pure.Fenced, pure.DialFailed}).Draw(t, "fence")
				owes = owes && event != pure.Fenced
			case pure.ToPay:
				require.Equal(t, pure.Paying, l.State)
				event = rapid.SampledFrom([]pure.LifeEvent{pure.Paid, pure.DialFailed}).Draw(t, "pay")
			case pure.ToServe:
				require.Equal(t, pure.Up, l.State)
				if rapid.Bool().Draw(t, "shed") {
					l, act = l.On(pure.Broke, now, 0)
					require.Equal(t, pure.Stay, act)
					require.Equal(t, pure.Shed, l.State)
				}
				event = rapid.SampledFrom([]pure.LifeEvent{pure.Died, pure.DiedOwing}).Draw(t, "death")
				owes = owes || event == pure.DiedOwing
			case pure.ToWait:
				require.Equal(t, pure.Down, l.State)
				require.GreaterOrEqual(t, l.Wait, time.Duration(0))
				require.LessOrEqual(t, l.Wait, 30*time.Second)
				now += l.Wait
			default:
				require.Fail(t, "nothing to do", "%v in %v", act, l.State)
			}
			if act != pure.ToWait && !stubborn && rapid.Bool().Draw(t, "slow") {
				now += some.Draw(t, "takes")
			}
			l, act = l.On(event, now, jitter.Draw(t, "jitter"))
			if l.State == pure.Paying || l.State == pure.Up {
				require.False(t, owes, "the fence comes first")
			}
		}
		for i := range dials {
			if i >= 75 {
				require.Greater(t, dials[i]-dials[i-75], time.Minute-ms, "more than 75 connects in a minute")
			}
		}
		l, act = l.On(pure.GroupStopped, now, 0)
		require.Equal(t, pure.ToHalt, act)
		_, act = l.On(rapid.SampledFrom([]pure.LifeEvent{pure.Waited, pure.Dialed, pure.Died, pure.Paid, pure.Fenced}).Draw(t, "late"), now, 0)
		require.Equal(t, pure.ToHalt, act, "nothing comes after the end")
	})
}

// A holding is a renewal with the times that its ages refer to.
type holding struct {
	renewal pure.Renewal
	now     time.Duration
	base    time.Duration // the time of age 0
	asked   time.Duration // of the renewal in flight
	flying  bool
	bound   time.Duration // the time at which the hold ends; Never if there is no bound
	renews  bool
	told    bool // the context has been cancelled
	toldAt  time.Duration
	over    bool
	starved bool // an answer was read before the clocks, although the alarm was due
}

func (h *holding) age() time.Duration { return h.now - h.base }

// end returns the time at which the validity ends.
func (h *holding) end() time.Duration { return h.base + h.renewal.Validity }

// For all outcomes of a lock's renewals, and whenever their answers come: the
// end of validity never moves back, and only moves to what a renewal that was
// asked for in time gives (R4, R10). The holder is told before the end, by its
// own alarm (R13). At most one renewal is in flight, none unless the
// hold renews, and none after the end.
func TestRenewalUnderAnyAnswers_R10_R13(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		validity := time.Duration(rapid.IntRange(2, 20_000).Draw(t, "validity")) * ms
		h := &holding{bound: pure.Never, renews: rapid.Bool().Draw(t, "renews")}
		if rapid.Bool().Draw(t, "bounded") {
			h.bound = validity / 10 * time.Duration(rapid.IntRange(1, 60).Draw(t, "bound"))
		}
		h.renewal = pure.NewRenewal(validity, h.bound, h.renews)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			h.step(t)
			if h.over {
				break
			}
		}
		require.Equal(t, h.over, h.renewal.Alarm() == pure.Never)
	})
}

// step runs the next event: the alarm, or an answer before it.
func (h *holding) step(t *rapid.T) {
	alarm := h.base + h.renewal.Alarm()
	if h.flying {
		answer := h.asked + time.Duration(rapid.IntRange(0, int(2*h.renewal.Validity/ms)).Draw(t, "answer"))*ms
		late := answer >= alarm && rapid.IntRange(0, 3).Draw(t, "late") == 0
		if h.starved = h.starved || late; late || answer < alarm {
			h.now = max(h.now, answer)
			h.answer(t)
			return
		}
	}
	if wait := int(alarm-h.now) / int(ms); wait > 0 && rapid.Bool().Draw(t, "look") { // a look before the alarm (R13)
		h.now += time.Duration(rapid.IntRange(0, wait).Draw(t, "early")) * ms
	} else {
		h.now = max(h.now, alarm)
	}
	h.act(t, pure.OnLook)
}

func (h *holding) answer(t *rapid.T) {
	h.flying = false
	h.act(t, rapid.SampledFrom([]pure.RenewalEvent{pure.OnGrant, pure.OnGrant, pure.OnGrant, pure.OnFailure, pure.OnFailure, pure.OnRefusal, pure.OnEnd}).Draw(t, "event"))
}

// act feeds an event and checks the result against the rules.
func (h *holding) act(t *rapid.T, e pure.RenewalEvent) {
	end := h.end()
	after, act := h.renewal.On(e, h.age(), rapid.Float64Range(0, 0.999).Draw(t, "jitter"))
	h.renewal = after
	switch act {
	case pure.ToRenew:
		require.False(t, h.flying, "one at a time")
		require.True(t, h.renews)
		require.Less(t, h.now, end)
		h.flying, h.asked = true, h.now
	case pure.ToProlong:
		require.Equal(t, pure.OnGrant, e)
		require.Less(t, h.now, end, "an extension after the end counts for nothing")
		h.base = h.asked
	case pure.ToLose, pure.ToStopShort:
		require.False(t, h.told, "told once")
		h.told, h.toldAt = true, h.now
		require.True(t, h.starved || e == pure.OnRefusal || h.toldAt < end, "told before the end")
		require.True(t, h.starved || act == pure.ToLose || h.toldAt == h.bound, "stopped at the bound")
		h.over = act == pure.ToLose
	case pure.ToDrop:
		h.over = true
	}
	require.GreaterOrEqual(t, h.end(), end, "the end moves back")
	require.Equal(t, e == pure.OnGrant && act == pure.ToProlong, h.end() == h.asked+h.renewal.Validity && e == pure.OnGrant)
	if !h.told && !h.over && !h.starved {
		require.Less(t, h.now, min(h.end(), h.bound), "the holder was not told")
	}
	h.starved = h.starved && e != pure.OnLook
	if e == pure.OnLook && act == pure.CarryOn && !h.over {
		require.Greater(t, h.base+h.renewal.Alarm(), h.now, "the same alarm again, without end")
	}
}

// A trustModel is a server, what it really remembers, and what a client that
// sees only answers believes.
type trustModel struct {
	trust  pure.Trust
	now    time.Duration
	run    string        // of the process
	hidden bool          // the run id must not be queried
	start  time.Duration // of the process
	phase  time.Duration // where in a second of the server's clock the world began
	memory time.Duration // since when nothing has been forgotten
	seal   pure.Seal     // in the server's memory; zero if there is none
	known  time.Duration // since when this client has watched, or knows from a seal or an uptime
	own    time.Duration // since when it has watched by itself
}

// Whatever a server does, a trusted node has forgotten nothing for as long as
// any lock can live. What we would write into a seal for others is true. A
// process that was watched for long enough is trusted, by this client, by the
// one that wrote the seal, or, at a debut, by its own account (R23, R29). The
// need only grows.
func TestTrustIsDeserved_R23(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &trustModel{run: "run0", hidden: rapid.IntRange(0, 4).Draw(t, "hidden") == 0}
		m.phase = time.Duration(rapid.IntRange(0, 999).Draw(t, "phase")) * ms
		m.now = time.Duration(rapid.IntRange(0, 9000).Draw(t, "age")) * ms
		m.trust.Need = pure.NeedFor(time.Duration(rapid.IntRange(1, 2000).Draw(t, "maxTTL"))*ms, 0.01)
		m.trust.Own = time.Duration(rapid.IntRange(0, 1).Draw(t, "fails over")*rapid.IntRange(0, 2000).Draw(t, "own")) * ms
		m.meet(t)
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) {
				m.now += time.Duration(rapid.IntRange(1, 1500).Draw(t, "wait")) * ms
				m.trust = m.trust.At(m.now)
			},
			"reconnect": m.meet,
			"restart":   m.restart,
			"look":      m.look,
			"flush":     m.flush,
			"write":     m.write,
			"other":     m.other,
			"debut":     m.debut,
			"silence": func(*rapid.T) {
				m.own = m.now
				m.trust = m.trust.Silent(m.now)
			},
			"require": func(t *rapid.T) {
				before := m.trust.Need
				m.trust = m.trust.Require(time.Duration(rapid.IntRange(1, 3000).Draw(t, "need"))*ms, m.trust.Own, m.now)
				require.GreaterOrEqual(t, m.trust.Need, before)
			},
			"": m.check,
		})
	})
}

// meet completes a handshake with the process.
func (m *trustModel) meet(t *rapid.T) {
	run := m.run
	if m.hidden {
		run = ""
	}
	if run == "" || run != m.trust.Run || !m.trust.Met {
		m.known, m.own = m.now, m.now
	}
	m.trust = m.trust.Meet(run, m.now)
}

// restart starts a new process and connects to it. The process remembers
// nothing, or an old snapshot, which contains the seal of another process.
func (m *trustModel) restart(t *rapid.T) {
	m.run = fmt.Sprint("run of ", m.now, rapid.IntRange(0, 1<<30).Draw(t, "run"))
	m.memory, m.start = m.now, m.now
	if rapid.Bool().Draw(t, "empty") {
		m.seal = pure.Seal{}
	}
	m.meet(t)
}

// look reads the seal, or fails to.
func (m *trustModel) look(t *rapid.T) {
	s := pure.Sighting{What: pure.SealSeen, Seal: m.seal}
	if m.seal == (pure.Seal{}) {
		s = pure.Sighting{What: pure.SealAbsent}
	}
	if rapid.IntRange(0, 5).Draw(t, "unreadable") == 0 {
		s = pure.Sighting{}
	}
	if m.trust.Marked && s.What == pure.SealAbsent {
		m.known, m.own = m.now, m.now
	}
	if m.trust.Run != "" && rapid.Bool().Draw(t, "dated") {
		m.trust.Account = m.account(0)
	}
	m.trust = m.trust.Sight(s, m.now)
	if s.What == pure.SealSeen && s.Seal.Run == m.trust.Run {
		m.known = min(m.known, m.now-s.Seal.Watched) // even if that is too little for now
		if a := m.trust.Account; a.Believed && s.Seal.Uptime > 0 {
			m.known = min(m.known, m.now-s.Seal.Watched-max(0, pure.UptimeProves(a.Least(m.now)-s.Seal.Uptime)))
		}
	}
}

// account is what the process says of its start at this moment.
func (m *trustModel) account(ahead time.Duration) pure.Account {
	return pure.Account{Believed: true, Uptime: m.uptime() + ahead, Dialed: m.now, Asked: m.now}
}

// uptime is the server's own account, in whole seconds of its clock.
func (m *trustModel) uptime() time.Duration {
	second := func(at time.Duration) time.Duration { return (at + m.phase).Truncate(time.Second) }
	return second(m.now) - second(m.start)
}

// debut opens a set in which no node has a seal, and believes the server's own
// account, which counts whole seconds of its clock.
func (m *trustModel) debut(t *rapid.T) {
	if m.seal != (pure.Seal{}) || m.trust.Marked || m.memory != m.start || m.trust.Run == "" {
		t.Skip()
	}
	var ahead time.Duration
	if rapid.Bool().Draw(t, "fast clock") {
		ahead = time.Second // the start was read from a clock that is updated now and then
	}
	m.trust.Account = m.account(ahead)
	m.known = m.trust.Began(true)
	m.trust = m.trust.Opens(m.known, m.now)
	if m.trust.Own > 0 {
		m.known = max(m.known, m.own) // a replica may have run for longer
	}
	m.trust.Account = m.account(0)
}

// flush deletes all keys, including the seal, under an unchanged run id. It can
// be noticed only if a seal was known, whatever it said, by the next look and
// not earlier.
func (m *trustModel) flush(t *rapid.T) {
	if !m.trust.Marked {
		t.Skip()
	}
	m.memory, m.seal, m.known, m.own = m.now, pure.Seal{}, m.now, m.now
	m.trust = m.trust.Sight(pure.Sighting{What: pure.SealAbsent}, m.now)
	require.False(t, m.trust.Trusted)
}

// write writes our own seal, proved or not. It never lowers another one.
func (m *trustModel) write(t *rapid.T) {
	if m.trust.Run == "" {
		t.Skip()
	}
	m.seals(m.trust.Watched(m.now))
	m.trust = m.trust.Seal(m.trust.Watched(m.now), m.now)
}

// seals is what the server does with a seal.
func (m *trustModel) seals(watched time.Duration) {
	m.seal = pure.Seal{Run: m.run, Watched: watched, Uptime: m.uptime()}.Over(m.seal)
}

// other is another client that has watched for at most as long as the process
// remembers, and writes its seal, perhaps with no time at all.
func (m *trustModel) other(t *rapid.T) {
	watched := (m.now - m.memory).Truncate(ms) - time.Duration(rapid.IntRange(0, 5).Draw(t, "less"))*ms
	m.seals(max(0, watched))
}

func (m *trustModel) check(t *rapid.T) {
	remembers := m.now - m.memory
	if m.trust.Trusted {
		require.GreaterOrEqual(t, remembers, m.trust.Need, "trusted, and it has forgotten")
		require.GreaterOrEqual(t, m.now-m.own, m.trust.Own, "trusted by what others watched")
	}
	require.LessOrEqual(t, m.trust.Watched(m.now), remembers, "a seal would lie")
	if m.now-m.known >= m.trust.Need && m.now-m.own >= m.trust.Own {
		require.True(t, m.trust.At(m.now).Trusted, "watched for long enough")
	}
	require.Equal(t, m.trust.Trusted, m.trust.Left(m.now) == 0)
	if m.trust.Proved(m.now) {
		require.True(t, m.trust.Trusted && m.trust.Run != "")
	}
}
