package admin

import (
	"context"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/internal/trial"
	"github.com/stretchr/testify/require"
)

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
		m.Link(1).Refuse(true)
		config.Prefix += "an0ther"
		_, stopped := Init(t.Context(), config)
		require.ErrorAs(t, stopped, new(*InitError))

		specimens := map[string]any{
			"Deployment": d, "InitError": stopped, "FenceReset": FenceReset{}, "FenceNode": FenceNode{},
			"Inspection": found, "InspectedNode": found.Nodes[0], "Participant": Participant{}, "LockState": found.State,
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
		"InspectHolder": func() { _, _ = InspectHolder(t.Context(), new(redlock.Client), "r") },
	} {
		require.NotEmpty(t, redistest.FailsAtTheDoor(t, name, "redlock: ", f), "%s must panic", name)
	}
}
