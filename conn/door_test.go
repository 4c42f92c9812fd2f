package conn

import (
	"context"
	"testing"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// A value that this package did not make, and a nil context, fail at the door:
// a call returns, or it panics with the package's name.
func TestZeroValuesAndNilContextsPanicWithThePackagesName(t *testing.T) {
	const prefix = "conn: "
	for _, v := range []any{
		(*Conn)(nil), new(Conn), (*Poller)(nil), new(Poller), new(Server), new(Config), Endpoint{}, Step{}, Class(0), Outlook(0),
		new(Error), new(StepError), new(PeerError), (*Error)(nil), (*StepError)(nil), (*PeerError)(nil), TLSFiles{}, Event{},
	} {
		redistest.MethodsFailAtTheDoor(t, prefix, v, nil, false)
		redistest.MethodsFailAtTheDoor(t, prefix, v, t.Context(), false)
	}
	var none context.Context
	require.NotEmpty(t, redistest.FailsAtTheDoor(t, "Dial", prefix, func() { _, _ = Dial(none, Config{}) }), "Dial must panic")
	require.Equal(t, ClassNone, ClassOf(resp.Value{}))
	require.Equal(t, ClassNone, ErrorClass(nil))
	require.False(t, IsTLS(nil))
}
