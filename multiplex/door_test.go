package multiplex

import (
	"testing"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A value that this package did not make, and a nil context, fail at the door:
// a call returns, or it panics with the package's name.
func TestZeroValuesAndNilContextsPanicWithThePackagesName(t *testing.T) {
	const prefix = "multiplex: "
	for _, v := range []any{
		(*Group)(nil), new(Group), (*Lookout)(nil), new(Lookout), (*Outcomes)(nil), new(Outcomes), new(Form),
		Claim{}, Config{}, Encoded{}, Floors{}, News(0), Seal{}, Set(0), Tally{}, Membership{}, Status{}, NodeCounts{},
		new(NodeError), new(PreflightError), new(QuarantineError), new(RefusalError), new(UndecidedError),
		(*NodeError)(nil), (*PreflightError)(nil), (*QuarantineError)(nil), (*RefusalError)(nil), (*UndecidedError)(nil),
	} {
		redistest.MethodsFailAtTheDoor(t, prefix, v, nil, false)
		redistest.MethodsFailAtTheDoor(t, prefix, v, t.Context(), false)
	}
	_, err := New(Config{})
	require.ErrorContains(t, err, prefix)
}
