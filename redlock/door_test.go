package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A value that this package did not make, a nil context and a nil function fail
// at the door: a call returns, or it panics with the package's name. A new type
// needs a specimen here.
func TestZeroValuesAndNilContextsPanicWithThePackagesName(t *testing.T) {
	m := newMemory(t, 3)
	// Time is real here: a busy machine has patience, and loses no lock.
	const ttl, patience = 20 * time.Second, 5 * time.Second
	c := m.opened(t, Config{Fenced: true, Owner: "web-1", MaxTTL: ttl, NodeTimeout: patience})
	lock, err := c.TryAcquire(t.Context(), "door", ttl)
	require.NoError(t, err)
	rw := c.RW("door-rw")
	_, err = rw.Read().TryAcquire(t.Context(), ttl)
	require.NoError(t, err)
	hold, err := c.Lock("door-hold").TryHold(t.Context(), HoldOptions{TTL: ttl})
	require.NoError(t, err)
	defer func() { require.NoError(t, hold.Release(t.Context())) }()

	const prefix = "redlock: "
	zero := map[string][]any{
		"Client": {(*Client)(nil), new(Client)}, "Hold": {(*Hold)(nil), new(Hold)},
		"Lock": {Lock{}, new(Lock)}, "Locker": {Locker{}, new(Locker)}, "RWLock": {RWLock{}, new(RWLock)},
		"Token": {Token{}}, "Node": {Node{}}, "Config": {Config{}},
		"NodeChange": {NodeChange{}}, "NodeStatus": {NodeStatus{}}, "Stats": {Stats{}},
		"CallCounts": {CallCounts{}}, "Histogram": {Histogram{}}, "HoldInfo": {HoldInfo{}},
		"NodeAnswer":     {NodeAnswer{}},
		"UndecidedError": {new(UndecidedError)}, "NodeError": {new(NodeError)}, "ResourceError": {(*ResourceError)(nil), new(ResourceError)},
		"CancelledError": {(*CancelledError)(nil), new(CancelledError)}, "HeldError": {(*HeldError)(nil), new(HeldError)},
		"LostError": {(*LostError)(nil), new(LostError)}, "PreflightError": {new(PreflightError)}, "QuarantineError": {new(QuarantineError)},
	}
	for _, name := range redistest.ExportedTypes(t, ".") {
		switch name {
		case "Allow", "HoldOptions", "Connect", "Retry", "Tracer", "CallInfo":
			continue // no methods
		}
		require.NotEmpty(t, zero[name], "%s needs a specimen", name)
	}
	for _, all := range zero {
		for _, v := range all {
			redistest.MethodsFailAtTheDoor(t, prefix, v, nil, false)
			redistest.MethodsFailAtTheDoor(t, prefix, v, t.Context(), false)
		}
	}
	// Of what was made, only a nil context and a nil function are wrong.
	for _, v := range []any{c, lock, hold, rw, rw.Read(), c.Fair("f"), c.Semaphore("s", 2)} {
		redistest.MethodsFailAtTheDoor(t, prefix, v, nil, true)
		redistest.MethodsFailAtTheDoor(t, prefix, v, t.Context(), true)
	}
	var none context.Context
	config := m.reach(Config{})
	for name, f := range map[string]func(){
		"New":         func() { _, _ = New(none, config) },
		"Open":        func() { _, _ = Open(none) },
		"FromContext": func() { FromContext(none) },
	} {
		require.NotEmpty(t, redistest.FailsAtTheDoor(t, name, prefix, f), "%s must panic", name)
	}
}

// nothing is for calls that fail before they run it.
func nothing(context.Context) error { return nil }
