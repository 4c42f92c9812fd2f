package election

import (
	"context"
	"testing"

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
		const name, prefix = "customer-4711", "pr3fix-0f-keys:"
		c := m.Opened(t, trial.Fenced(func(c *redlock.Config) { c.Owner, c.Prefix = "web-1", prefix }))
		e := elect(t, c, name, Options{})
		l, err := Leader(t.Context(), c, name)
		require.NoError(t, err)
		specimens := map[string]any{"Election": e, "Options": Options{}, "TermInfo": TermInfo{}, "Leadership": l}
		for _, name := range redistest.ExportedTypes(t, ".") {
			require.NotNil(t, specimens[name], "%s needs a specimen", name)
		}
		for _, v := range specimens {
			redistest.Specimen{Value: v}.ShowsNone(t, prefix)
		}
		redistest.Specimen{Value: e, Open: true}.ShowsNone(t, name)
		redistest.MethodsFailAtTheDoor(t, "", e, nil, true)
		redistest.MethodsFailAtTheDoor(t, "", e, t.Context(), true)
	})
	for _, v := range []any{(*Election)(nil), new(Election), Leadership{}, TermInfo{}} {
		redistest.MethodsFailAtTheDoor(t, "election: ", v, nil, false)
		redistest.MethodsFailAtTheDoor(t, "election: ", v, t.Context(), false)
	}
	var none context.Context
	for name, f := range map[string]func(){
		"New":    func() { _, _ = New(nil, "e", Options{}) },
		"Leader": func() { _, _ = Leader(none, nil, "e") },
		"Watch":  func() { Watch(none, new(redlock.Client), "e") },
	} {
		require.NotEmpty(t, redistest.FailsAtTheDoor(t, name, "redlock: ", f), "%s must panic", name)
	}
}
