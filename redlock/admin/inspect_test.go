package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/trial"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The sum of five nodes' answers.
func TestSumUp(t *testing.T) {
	key := func(holder string, seconds int) InspectedNode {
		return InspectedNode{Holder: holder, TTL: time.Duration(seconds) * time.Second}
	}
	none, down := InspectedNode{}, InspectedNode{Err: multiplex.ErrDown}
	foreign, forever := InspectedNode{Foreign: true}, InspectedNode{Holder: "a", TTL: NoExpiry}
	unclear := Inspection{State: StateUnclear}
	for name, c := range map[string]struct {
		nodes []InspectedNode
		want  Inspection
	}{
		"no holder":                              {[]InspectedNode{none, none, none, none, none}, Inspection{State: StateFree, Agree: 5}},
		"no holder, two are down":                {[]InspectedNode{none, down, none, down, none}, Inspection{State: StateFree, Agree: 3}},
		"remains on two":                         {[]InspectedNode{key("a", 1), none, none, key("b", 2), none}, Inspection{State: StateFree, Agree: 3}},
		"remains on three":                       {[]InspectedNode{key("a", 1), none, none, key("b", 2), key("c", 3)}, unclear},
		"split":                                  {[]InspectedNode{key("a", 1), key("a", 2), key("b", 2), key("b", 1), none}, unclear},
		"two, and three are down":                {[]InspectedNode{key("a", 1), key("a", 2), down, down, down}, unclear},
		"two, and one is down":                   {[]InspectedNode{key("a", 1), key("a", 2), none, none, down}, unclear},
		"held by all":                            {[]InspectedNode{key("a", 5), key("a", 1), key("a", 4), key("a", 2), key("a", 3)}, held(3, 5)},
		"held by three":                          {[]InspectedNode{key("a", 5), none, key("a", 4), key("b", 9), key("a", 3)}, held(3, 3)},
		"held by four":                           {[]InspectedNode{key("a", 5), down, key("a", 4), key("a", 1), key("a", 3)}, held(3, 4)},
		"forever on one of three":                {[]InspectedNode{key("a", 5), forever, key("a", 4), none, none}, held(4, 3)},
		"forever on two of four":                 {[]InspectedNode{key("a", 5), forever, key("a", 4), forever, none}, held(5, 4)},
		"forever":                                {[]InspectedNode{forever, forever, forever, key("a", 1), none}, held(0, 4)},
		"of another type":                        {[]InspectedNode{foreign, foreign, foreign, none, none}, unclear},
		"on two of four":                         {[]InspectedNode{key("a", 1), key("a", 1), none, none}, Inspection{State: StateUnclear}},
		"no holder on two of four, two are down": {[]InspectedNode{none, down, down, none}, Inspection{State: StateUnclear}},
		"two of another type":                    {[]InspectedNode{foreign, foreign, none, none, none}, Inspection{State: StateFree, Agree: 3}},
	} {
		all := Inspection{State: StateUnclear, Nodes: c.nodes}
		all.sumUp(3)
		c.want.Nodes = c.nodes
		assert.Equal(t, c.want, all, name)
	}
}

// Half of an even number of nodes is no quorum: what it says decides nothing.
func TestHalfOfTheNodesDecidesNothing_R12(t *testing.T) {
	half := []Participant{{Holder: "a", Nodes: []int{0, 1}}}
	for name, all := range map[string]Inspection{"readers": {Readers: half}, "permits": {PermitsHeld: half}} {
		all.State, all.Nodes = StateUnclear, make([]InspectedNode, 4)
		all.sumUp(multiplex.Quorum(4))
		require.Equal(t, StateUnclear, all.State, name)
	}
	simulated(t, 4, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		inspected(t, c, "r")
		for i := range 2 {
			m.Link(i).Refuse(true)
			m.Nodes[i].DropConns()
		}
		time.Sleep(5 * ms)
		found, err := Inspect(t.Context(), c, "r")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, StateUnclear, found.State)
	})
}

// held returns a lock held by "a" for some seconds; 0 means forever.
func held(seconds, agree int) Inspection {
	all := Inspection{State: StateHeld, Holder: "a", TTL: time.Duration(seconds) * time.Second, Agree: agree}
	if seconds == 0 {
		all.TTL = NoExpiry
	}
	return all
}

func inspected(t *testing.T, c *redlock.Client, resource string) Inspection {
	t.Helper()
	all, err := Inspect(context.Background(), c, resource)
	require.NoError(t, err)
	require.Equal(t, resource, all.Resource)
	return all
}

// The labels of the client and of the lock are shown, with the time of the
// attempt, which a renewal does not change.
func TestInspectShowsLabels(t *testing.T) {
	simulated(t, trial.AnyNumber, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{Owner: "web-1"})
		h, err := c.Lock("r").TryHold(t.Context(), redlock.HoldOptions{Label: "nightly import"})
		require.NoError(t, err)
		asked := time.Now()
		p, err := c.Semaphore("s", 2).TryHold(t.Context(), redlock.HoldOptions{Label: "a permit"})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		found := inspected(t, c, "r")
		require.Equal(t, []string{"web-1", "nightly import"}, []string{found.Owner, found.Label})
		require.Equal(t, h.Current().Token().Fingerprint(), found.Holder)
		require.WithinDuration(t, asked, found.Since, time.Second)
		require.Equal(t, "nightly import", found.Nodes[0].Label)
		require.Equal(t, found.Since, found.Nodes[0].Since)
		permit := inspected(t, c, "s").PermitsHeld[0]
		require.Equal(t, "a permit", permit.Label)
		require.WithinDuration(t, asked, permit.Since, time.Second)
		text, err := json.Marshal(found)
		require.NoError(t, err)
		require.Contains(t, string(text), `"label":"nightly import","since":"`)
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, p.Release(t.Context()))
	})
}

func TestInspect(t *testing.T) {
	simulated(t, 5, func(t *testing.T, m *memory) {
		m.Ownerless()
		c := m.Client(t, redlock.Config{Prefix: "lock:"})
		start := time.Now()
		free := inspected(t, c, "r")
		require.Equal(t, 2*ms, time.Since(start), "one round trip, of the slowest node")
		require.Equal(t, StateFree, free.State)
		require.Equal(t, 5, free.Agree)
		require.Zero(t, free.TTL)

		lock := trial.MustAcquire(t, c, "r", 10*time.Second)
		time.Sleep(time.Second)
		found := inspected(t, c, "r")
		require.Equal(t, StateHeld, found.State)
		require.Equal(t, lock.Token().Fingerprint(), found.Holder)
		require.Equal(t, 5, found.Agree)
		// The SET was executed 1 ms after it was sent, and PTTL 1 ms after
		// Inspect was called.
		require.Equal(t, 9*time.Second-2*ms, found.TTL)
		for i, n := range found.Nodes {
			require.Equal(t, InspectedNode{Addr: m.Nodes[i].Addr(), Holder: found.Holder, TTL: found.TTL}, n)
		}

		other := m.Client(t, redlock.Config{Prefix: "lock:"})
		require.Equal(t, found.Holder, inspected(t, other, "r").Holder, "the same for every client")
		require.NoError(t, lock.Release(context.Background()))
		require.Equal(t, StateFree, inspected(t, c, "r").State, "Inspect stands behind the release on every connection")
		again := trial.MustAcquire(t, c, "r", time.Second)
		require.NotEqual(t, found.Holder, again.Token().Fingerprint())
		for i := range m.Nodes {
			require.Equal(t, c.Nodes()[i].Connects+other.Nodes()[i].Connects, m.Nodes[i].Calls("DEL"), "it changes nothing")
		}
	})
}

// A node that cannot be asked is named with its cause. With fewer answers than
// a quorum that is the error, and the end of the caller's own context is
// reported as such; what is known is returned all the same (R12). Inspect takes
// no longer than the context, or the node's timeout.
func TestInspectWithoutAQuorum_R12(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{NodeTimeout: 700 * ms})
		lock := trial.MustAcquire(t, c, "r", time.Minute)
		time.Sleep(2 * ms)
		m.Link(0).Refuse(true)
		m.Nodes[0].DropConns()
		time.Sleep(5 * ms)
		found := inspected(t, c, "r")
		require.Equal(t, StateHeld, found.State)
		require.Equal(t, 2, found.Agree)
		require.ErrorIs(t, found.Nodes[0].Err, multiplex.ErrDown)

		m.Nodes[1].Pause()
		start := time.Now()
		found, err := Inspect(context.Background(), c, "r")
		require.Equal(t, 700*ms, time.Since(start), "Config.NodeTimeout")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, multiplex.ErrTimeout)
		require.ErrorIs(t, err, multiplex.ErrDown)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller gave no deadline")
		var undecided *redlock.UndecidedError
		require.ErrorAs(t, err, &undecided)
		require.Len(t, undecided.Nodes, 2)
		require.Equal(t, StateUnclear, found.State)
		require.Equal(t, lock.Token().Fingerprint(), found.Nodes[2].Holder)

		m.Nodes[1].Resume()
		m.Link(0).Refuse(false)
		time.Sleep(time.Second)
		require.Equal(t, StateHeld, inspected(t, c, "r").State, "late answers are read and dropped")
		m.Nodes[0].Pause()
		m.Nodes[1].Pause()
		short, cancel := context.WithTimeout(context.Background(), 30*ms)
		defer cancel()
		start = time.Now()
		_, err = Inspect(short, c, "r")
		require.Equal(t, 30*ms, time.Since(start))
		var cancelled *redlock.CancelledError
		require.ErrorAs(t, err, &cancelled)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, cancelled.Last, redlock.ErrNoQuorum)
		_, err = Inspect(short, c, "r")
		require.ErrorAs(t, err, &cancelled, "at once")
		m.Nodes[0].Resume()
		m.Nodes[1].Resume()

		for _, resource := range []string{"", strings.Repeat("r", 1025)} {
			_, err = Inspect(context.Background(), c, resource)
			require.ErrorIs(t, err, redlock.ErrResource)
		}
		trial.CloseNow(t, c)
		_, err = Inspect(context.Background(), c, "r")
		require.ErrorIs(t, err, redlock.ErrClosed)
	})
}

// A key that is set or deleted between the two commands is shown as the first
// one saw it, or as gone.
func TestInspectOfAKeyThatGoes(t *testing.T) {
	for name, c := range map[string]struct {
		ttl  string
		want InspectedNode
	}{
		"gone meanwhile": {":-2\r\n", InspectedNode{}},
		"about to go":    {":0\r\n", InspectedNode{Holder: pure.Fingerprint([]byte("x"))}},
	} {
		simulated(t, 1, func(t *testing.T, m *memory) {
			client := m.Client(t, redlock.Config{})
			m.Nodes[0].DB().Set("r", "x", time.Hour)
			m.Nodes[0].Handle(func(_ int, args []string) ([]byte, bool) { return []byte(c.ttl), args[0] == "PTTL" })
			c.want.Addr = m.Addr(0)
			require.Equal(t, c.want, inspected(t, client, "r").Nodes[0], name)
		})
	}
}

// Real servers, with values of any kind in place of a lock.
func TestInspectOfRealServers(t *testing.T) {
	servers := redistest.Servers(t, 5)
	c := realClient(t, servers, false)
	do := func(server int, args ...string) {
		_, err := servers[server].Do(args...)
		require.NoError(t, err)
	}
	lock := trial.MustAcquire(t, c, "r", time.Minute)
	require.Eventually(t, func() bool { return inspected(t, c, "r").Agree == 5 }, 15*time.Second, ms, "the slower nodes come up")
	found := inspected(t, c, "r")
	require.Equal(t, StateHeld, found.State)
	require.Equal(t, lock.Token().Fingerprint(), found.Holder)
	require.InDelta(t, time.Minute, found.TTL, float64(30*time.Second))

	do(0, "PERSIST", "r")
	do(1, "DEL", "r")
	do(2, "SET", "r", "another")
	found = inspected(t, c, "r")
	require.Equal(t, StateHeld, found.State)
	require.Equal(t, 3, found.Agree)
	require.Equal(t, NoExpiry, found.Nodes[0].TTL)
	require.NotEqual(t, NoExpiry, found.TTL)
	require.Equal(t, InspectedNode{Addr: found.Nodes[1].Addr}, found.Nodes[1])
	require.Equal(t, pure.Fingerprint([]byte("another")), found.Nodes[2].Holder)

	do(3, "DEL", "r")
	do(3, "LPUSH", "r", "x")
	found = inspected(t, c, "r")
	require.Equal(t, StateUnclear, found.State)
	require.True(t, found.Nodes[3].Foreign)
	require.Equal(t, NoExpiry, found.Nodes[3].TTL)
	require.Zero(t, c.Nodes()[3].Counts.Deaths, "WRONGTYPE is an answer")

	require.NoError(t, servers[4].Stop())
	defer servers[4].Continue()
	limited, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	found, err := Inspect(limited, c, "r")
	require.NoError(t, err, "a quorum answered")
	require.Error(t, found.Nodes[4].Err, "the others do not wait forever: it was shed, or the context ended")
	require.Equal(t, lock.Token().Fingerprint(), found.Nodes[0].Holder)
}

// A value of any length in place of a lock counts as held, for TryAcquire, for
// waiting callers and for Inspect. It is never fetched, and no connection ends
// because of it (R32).
func TestLargeValueIsHeld_R32(t *testing.T) {
	servers := redistest.Servers(t, 3)
	for _, portable := range []bool{false, true} {
		c := realClient(t, servers, portable)
		for _, size := range []int{1024, 1025, 5_000, 3 << 20} {
			for i := range servers {
				_, err := servers[i].Do("SET", "r", strings.Repeat("x", size), "PX", "600000")
				require.NoError(t, err)
			}
			_, err := c.TryAcquire(context.Background(), "r", 10*time.Second)
			require.ErrorIs(t, err, redlock.ErrHeld)
			short, cancel := context.WithTimeout(context.Background(), 200*ms)
			_, err = c.Acquire(short, "r", time.Second) // it waits, so keys are tracked
			cancel()
			require.Error(t, err)
			_, err = servers[0].Do("SCRIPT", "FLUSH")
			require.NoError(t, err)
			found := inspected(t, c, "r")
			require.Equal(t, StateHeld, found.State)
			require.Equal(t, 3, found.Agree)
			require.Len(t, found.Holder, 16)
			require.Positive(t, found.TTL)
			_, err = servers[0].Do("SET", "r", strings.Repeat("x", size-1)+"y", "PX", "600000")
			require.NoError(t, err)
			require.NotEqual(t, found.Holder, inspected(t, c, "r").Nodes[0].Holder, "another value of the same length")
		}
		for _, n := range c.Nodes() {
			require.Nil(t, n.Counts.Deaths)
		}
	}
}

// A client with Config.Fenced sees the number of the holder's lock. A node that
// was healed may have a higher one.
func TestInspectShowsTheFence(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Opened(t, trial.Fenced())
		require.NoError(t, trial.MustAcquire(t, c, "r", time.Second).Release(t.Context()))
		require.Zero(t, inspected(t, c, "r").Fence, "of no holder")
		lock := trial.MustAcquire(t, c, "r", time.Second)
		time.Sleep(5 * ms)
		found := inspected(t, c, "r")
		require.Equal(t, lock.Fence(), found.Fence)
		text, err := json.Marshal(found)
		require.NoError(t, err)
		require.Equal(t, 4, strings.Count(string(text), fmt.Sprintf(`"fence":%d`, lock.Fence())))
		m.Nodes[0].DB().Set("r"+":fence", fmt.Sprint(lock.Fence()+1), time.Minute)
		m.Nodes[1].DB().Set("r"+":fence", "no number", time.Minute)
		found = inspected(t, c, "r")
		require.Equal(t, lock.Fence(), found.Fence)
		require.Zero(t, found.Nodes[1].Fence)
		require.Zero(t, inspected(t, m.Client(t, redlock.Config{MaxTTL: time.Second}), "r").Fence)
	})
}

// The names, units and texts of the JSON forms.

func TestJSONOfAnInspection_R19(t *testing.T) {
	for _, v := range []any{Inspection{}, InspectedNode{}, Participant{}} {
		redistest.JSONNames(t, v, 0)
	}
	redistest.JSONTellsApart(t, func(name string) any { return Inspection{Resource: name} })
	redistest.JSONTellsApart(t, func(name string) any { return InspectedNode{Err: errors.New(name)} })
	for _, c := range []struct {
		v    any
		want string
	}{
		{InspectedNode{Addr: "a:1", Holder: "h", TTL: 1500 * time.Microsecond}, `{"addr":"a:1","holder":"h","ttl_ms":1.5}`},
		{InspectedNode{Addr: "a:1", TTL: NoExpiry, Err: errors.New("down")}, `{"addr":"a:1","ttl_ms":-1,"error":"down"}`},
		{
			Inspection{Resource: "r", State: StateHeld, Holder: "h", TTL: time.Second, Agree: 2, Nodes: []InspectedNode{}},
			`{"resource":"r","state":"held","holder":"h","ttl_ms":1000,"agree":2,"nodes":[]}`,
		},
	} {
		text, err := json.Marshal(c.v)
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(text))
	}
}

// No exported type shows a secret, whatever the verb, and no method of a value
// that no function has made fails deep inside. A new type needs a specimen
// here.
func TestNoTypeShowsASecret_R27(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		const resource = "customer-4711"
		config := m.Reach(redlock.Config{Prefix: "pr3fix-0f-keys:", Fenced: true, Owner: "web-1", MaxTTL: time.Minute})
		d, err := Init(t.Context(), config)
		require.NoError(t, err)
		c, err := redlock.New(t.Context(), config)
		require.NoError(t, err)
		defer trial.CloseNow(t, c)
		lock := trial.MustAcquire(t, c, resource, time.Minute)
		found, err := Inspect(t.Context(), c, resource)
		require.NoError(t, err)
		listing, err := List(t.Context(), c, ListOptions{})
		require.NoError(t, err)
		m.Link(1).Refuse(true)
		config.Prefix += "an0ther"
		_, stopped := Init(t.Context(), config)
		require.ErrorAs(t, stopped, new(*InitError))

		specimens := map[string]any{
			"Deployment": d, "InitError": stopped, "FenceReset": FenceReset{}, "FenceNode": FenceNode{},
			"Inspection": found, "InspectedNode": found.Nodes[0], "Participant": Participant{}, "LockState": found.State,
			"Listing": listing, "ListedLock": listing.Locks[0], "ListedNode": listing.Nodes[0], "ListOptions": ListOptions{},
			"ListedKind": KindLock, "ListedState": ListedHeld,
		}
		for _, name := range redistest.ExportedTypes(t, ".") {
			require.NotNil(t, specimens[name], "%s needs a specimen", name)
		}
		for _, v := range specimens {
			redistest.Specimen{Value: v}.ShowsNone(t, "pr3fix-0f-keys:", "an0ther", lock.Token().Reveal())
		}
	})
	const prefix = "admin: "
	for _, v := range []any{(*InitError)(nil), new(InitError), Inspection{}, InspectedNode{}, Participant{}, LockState("")} {
		redistest.MethodsFailAtTheDoor(t, prefix, v, nil, false)
	}
}

// A nil context and a client that no function has made panic at the door.
func TestDoorsOfFunctions(t *testing.T) {
	var none context.Context
	for name, f := range map[string]func(){
		"Init":          func() { _, _ = Init(none, redlock.Config{Nodes: redlock.Nodes("redis://127.0.0.1:1")}) },
		"ResetFence":    func() { _, _ = ResetFence(none, redlock.Config{Nodes: redlock.Nodes("redis://127.0.0.1:1")}, 0) },
		"Inspect":       func() { _, _ = Inspect(t.Context(), nil, "r") },
		"List":          func() { _, _ = List(none, new(redlock.Client), ListOptions{}) },
		"InspectHolder": func() { _, _ = InspectHolder(t.Context(), new(redlock.Client), "r") },
	} {
		require.NotEmpty(t, redistest.FailsAtTheDoor(t, name, "redlock: ", f), "%s must panic", name)
	}
}
