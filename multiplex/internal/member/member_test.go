package member

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSightings(t *testing.T) {
	for wire, want := range map[string]pure.Sighting{
		"$-1\r\n": {What: pure.SealAbsent}, "_\r\n": {What: pure.SealAbsent},
		"$1\r\nx\r\n": {What: pure.SealStrange}, "$0\r\n\r\n": {What: pure.SealStrange},
		"-WRONGTYPE Operation against a key\r\n": {What: pure.SealStrange},
		"-NOPERM no\r\n":                         {What: pure.Unreadable},
		"-ERR x\r\n":                             {What: pure.Unreadable},
		"-LOADING x\r\n":                         {What: pure.Unreadable},
		"$38\r\nredlock-seal 5 member=0123456789abcdef\r\n": {What: pure.SealSeen, Seal: pure.Seal{Seat: pure.Seat{Member: "0123456789abcdef"}}},
		"$4000\r\n" + strings.Repeat("x", 4000) + "\r\n":    {What: pure.SealStrange},
	} {
		var l look
		assert.NoError(t, l.readSeal(decode(t, wire)), wire)
		assert.Equal(t, want, l.sighting, wire)
	}
	for _, wire := range []string{"+OK\r\n", ":1\r\n", "*-1\r\n", "*0\r\n"} {
		var l look
		for _, read := range []func(resp.Value) error{l.readRecord, l.readSeal} {
			assert.ErrorIs(t, read(decode(t, wire)), ErrUnexpected, wire)
		}
	}
}

func decode(t *testing.T, wire string) resp.Value {
	t.Helper()
	r := resp.NewReader(resp.Limits{})
	_, err := r.Fill(strings.NewReader(wire))
	require.NoError(t, err)
	v, ok, err := r.Next()
	require.NoError(t, err)
	require.True(t, ok, wire)
	return v
}

// A node's time comes from outside: only one that can be a fencing number is
// believed, since it goes into floors.
func TestReadTime_R32(t *testing.T) {
	for reply, want := range map[string]int64{ // in microseconds; 0 for none
		"*2\r\n$1\r\n1\r\n$6\r\n999999\r\n":               1_999_999,
		"*2\r\n$10\r\n1764000000\r\n$1\r\n7\r\n":          1764000000_000007,
		"*2\r\n$10\r\n9007199254\r\n$1\r\n0\r\n":          0, // in 2255
		"*2\r\n$19\r\n9223372036854775807\r\n$1\r\n0\r\n": 0,
		"*2\r\n$1\r\n1\r\n$7\r\n1000000\r\n":              0,
		"*2\r\n$2\r\n-1\r\n$1\r\n0\r\n":                   0,
		"*2\r\n$1\r\n1\r\n$1\r\nx\r\n":                    0,
		"*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\nx\r\n":         0,
		"*1\r\n$1\r\n1\r\n":                               0,
		"*-1\r\n":                                         0,
		"$1\r\n1\r\n":                                     0,
	} {
		got, err := ReadTime(decode(t, reply))
		if want == 0 {
			require.ErrorIs(t, err, ErrUnexpected, reply)
			continue
		}
		require.NoError(t, err, reply)
		require.Equal(t, want, got.UnixMicro())
	}
}

// The status of a node that is up says whether it counts; that of another says
// whether it will count when it joins.
func TestTrustInAStatus(t *testing.T) {
	one := Config{Nodes: []Address{{Addr: "a"}}}
	m := New(one, nil)
	m.nodes[0].trust = pure.Trust{Need: 2 * time.Second}.Meet("a", 0)
	for _, c := range []struct {
		up          bool
		at, left    time.Duration
		quarantined bool
	}{
		{true, time.Second, time.Second, true},
		{true, 3 * time.Second, 0, true}, // until the watch has looked
		{false, time.Second, time.Second, true},
		{false, 3 * time.Second, 0, false},
	} {
		s := m.Status(0, c.up, c.at)
		assert.Equal(t, c.quarantined, s.Quarantined)
		assert.Equal(t, c.left, s.Left)
	}
	assert.False(t, New(one, nil).Status(0, false, 0).Quarantined, "R23 is off")
}

// A hostless is a Host without nodes.
type hostless struct {
	Host
	sync.Mutex
}

func (*hostless) Now() time.Duration { return time.Hour }
func (h *hostless) Lock()            { h.Mutex.Lock() }
func (h *hostless) Unlock()          { h.Mutex.Unlock() }

// A suspend of the host stops this client's monotonic clock, and with it the
// primary that may run beside it. So a silence is measured by both clocks, also
// one before a handshake (failover.pml: suspended-unnoticed).
func TestSilenceInASuspend_R23(t *testing.T) {
	for name, c := range map[string]struct {
		mono, wall time.Duration
		silent     bool
	}{
		"a moment":    {time.Second, time.Second, false},
		"a suspend":   {time.Second, time.Minute, true},
		"a step back": {time.Minute, -time.Hour, true},
	} {
		m := New(Config{Nodes: []Address{{Addr: "a", Failover: conn.Failover{Expected: true, Bound: -1}}}}, new(hostless))
		n := &m.nodes[0]
		n.trust = n.trust.Meet("run", 0)
		n.contact = redistest.Clocks(time.Now(), -c.mono, -c.wall)
		_, err := m.Confirm(0, decode(t, "$13\r\nrole:master\r\n\r\n"), time.Now())
		assert.Equal(t, c.silent, errors.Is(err, ErrSilence), name)
		n.contact = redistest.Clocks(time.Now(), -c.mono, -c.wall)
		n.greet(0, time.Hour)
		assert.Equal(t, c.silent, n.trust.Why == pure.WhySilent, name)
		assert.GreaterOrEqual(t, pure.Elapsed(n.contact, time.Now()), time.Hour, "an hour of the handshake is silence")
	}
}

// A seal that may not be read confirms nothing, and is not called gone (R22).
func TestASealThatCannotBeRead_R22(t *testing.T) {
	m := New(Config{Nodes: []Address{{Addr: "a"}}}, new(hostless))
	why, err := m.Keeps(0, decode(t, "-NOPERM no permissions\r\n"))
	require.NoError(t, err)
	require.Equal(t, Unconfirmed, why.Kind)
	require.Equal(t, "its seal cannot be read: NOPERM", why.Found)
}
