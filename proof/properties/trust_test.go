package properties

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redmux/redmux/internal/pure"
)

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
			"require": func(t *rapid.T) {
				before := m.trust.Need
				m.trust = m.trust.Require(time.Duration(rapid.IntRange(1, 3000).Draw(t, "need"))*ms, m.now)
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
		m.known = m.now
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
		m.known = m.now
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
	m.trust.Account = m.account(0)
}

// flush deletes all keys, including the seal, under an unchanged run id. It can
// be noticed only if a seal was known, whatever it said, by the next look and
// not earlier.
func (m *trustModel) flush(t *rapid.T) {
	if !m.trust.Marked {
		t.Skip()
	}
	m.memory, m.seal, m.known = m.now, pure.Seal{}, m.now
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
	}
	require.LessOrEqual(t, m.trust.Watched(m.now), remembers, "a seal would lie")
	if m.now-m.known >= m.trust.Need {
		require.True(t, m.trust.At(m.now).Trusted, "watched for long enough")
	}
	require.Equal(t, m.trust.Trusted, m.trust.Left(m.now) == 0)
	if m.trust.Proved(m.now) {
		require.True(t, m.trust.Trusted && m.trust.Run != "")
	}
}
