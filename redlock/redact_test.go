package redlock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// guarded returns three nodes with a password.
func guarded(t *testing.T, password string) *memory {
	t.Helper()
	m := &memory{network: redistest.NewNetwork()}
	for i := range 3 {
		node := redistest.NewNode(redistest.NodeConfig{User: "alice", Password: password})
		node.Serve(m.network.Listen(fmt.Sprintf("node%d:6379", i)))
		m.nodes = append(m.nodes, node)
	}
	t.Cleanup(m.close)
	return m
}

// No exported type shows a password, a token or the prefix of keys when it is
// printed, whatever the verb and wherever the value is. A new type needs a
// specimen here.
func TestNoExportedTypeShowsASecret_R27(t *testing.T) {
	const password, prefix, resource = "hunter2!hunter2!", "pr3fix-0f-keys:", "customer-4711"
	m := guarded(t, password)
	var urls []string
	for _, n := range m.nodes {
		urls = append(urls, "redis://alice:"+password+"@"+n.Addr())
	}
	config := m.reach(Config{Nodes: Nodes(urls...), Password: password, Prefix: prefix, Fenced: true, Owner: "web-1", MaxTTL: time.Minute})
	_, err := Init(t.Context(), config)
	require.NoError(t, err)
	c, err := New(t.Context(), config)
	require.NoError(t, err)
	defer closeNow(t, c)

	lock, err := c.TryAcquire(t.Context(), resource, time.Minute)
	require.NoError(t, err)
	several, err := c.All(resource+"a", resource+"b").TryAcquire(t.Context(), time.Minute)
	require.NoError(t, err)
	hold, err := c.Lock(resource+"c").TryHold(t.Context(), HoldOptions{TTL: time.Minute})
	require.NoError(t, err)
	read, err := c.RW(resource+"d").Read().TryAcquire(t.Context(), time.Minute)
	require.NoError(t, err)
	write, err := c.RW(resource+"d").Upgrade(t.Context(), read, time.Minute)
	require.NoError(t, err)
	turn, err := c.Fair(resource+"e").Acquire(t.Context(), time.Minute)
	require.NoError(t, err)
	adopted, err := c.Adopt(resource, lock.Token(), time.Minute, time.Now())
	require.NoError(t, err)
	_, held := c.RW(resource+"d").Write().TryAcquire(t.Context(), time.Minute)
	require.ErrorIs(t, held, ErrHeld)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, cancelled := c.Acquire(over, "another", time.Minute)
	lost := lostError(resource, true, &account{err: errNoAnswerYet}, c.keeper.addrs)
	cause := &NodeError{Addr: m.nodes[0].Addr(), Err: ErrNodeDown}

	secrets := []string{password, prefix}
	for _, l := range []Lock{lock, several, hold.Current(), read, write, turn} {
		secrets = append(secrets, l.Token().Reveal())
	}
	_ = hold.Current().Token()
	specimens := map[string][]redistest.Specimen{
		"Client": {{Value: c}},
		"Lock":   {{Value: lock}, {Value: several}, {Value: read}, {Value: write}, {Value: turn}, {Value: adopted}},
		"Hold":   {{Value: hold}, {Value: hold.Context()}},
		"RWLock": {{Value: c.RW(resource)}},
		"Locker": {{Value: c.RW(resource).Read()}, {Value: c.Semaphore(resource, 2)}, {Value: c.Fair(resource)}},
		"Token":  {{Value: lock.Token(), Open: true}},
		"Config": {{Value: config, Open: true}, {Value: &config, Open: true}},
		"Node":   {{Value: config.Nodes[0], Open: true}},

		"UndecidedError": {{Value: &UndecidedError{Nodes: []*NodeError{cause}}}}, "NodeError": {{Value: cause}},
		"ResourceError":   {{Value: named("r", cancelled)}},
		"CancelledError":  {{Value: cancelled}},
		"HeldError":       {{Value: held}},
		"LostError":       {{Value: lost}},
		"NodeAnswer":      {{Value: lost.Nodes[0]}},
		"PreflightError":  {{Value: &PreflightError{}}},
		"QuarantineError": {{Value: &QuarantineError{}}},

		"Allow": {{Value: Allow{}}}, "HoldOptions": {{Value: HoldOptions{}}},
		"Tracer":    {{Value: &Tracer{}}},
		"Histogram": {{Value: c.Stats().Quorum}}, "Stats": {{Value: c.Stats()}}, "CallCounts": {{Value: c.Stats().Attempts}},
		"NodeChange": {{Value: NodeChange{Err: cause}}}, "NodeStatus": {{Value: c.Nodes()[0]}},
		"Connect": {{Value: config.Connect}}, "Retry": {{Value: config.Retry}},
		"CallInfo": {{Value: CallInfo{Err: held}}, {Value: CallInfo{Err: cancelled}}}, "HoldInfo": {{Value: c.Held()[0]}},
	}
	for _, name := range redistest.ExportedTypes(t, ".") {
		require.NotEmpty(t, specimens[name], "%s needs a specimen", name)
	}
	for name, all := range specimens {
		t.Run(name, func(t *testing.T) {
			for _, s := range all {
				s.ShowsNone(t, secrets...)
			}
		})
	}
	for _, v := range []any{c, lock, hold, c.RW(resource), c.Fair(resource)} {
		redistest.Specimen{Value: v, Open: true}.ShowsNone(t, resource)
	}
}
