package multiplex

import (
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
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

// No exported type shows a password, a key or a token when it is printed,
// whatever the verb and wherever the value is. A new type needs a specimen
// here.
func TestNoExportedTypeShowsASecret_R27(t *testing.T) {
	const password, key = "pa55word", "s3cret-pref1x:key"
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		_, err := c.claim(t.Context(), key, "t0ken", time.Minute)
		require.NoError(t, err)
		lookout := c.group.Lookout([]byte(key))
		defer lookout.Stop()
		lookout.Ask()
		encoded, cause, inbox := Encoded{Bytes: []byte(key)}, &NodeError{Addr: "a:1", Err: ErrDown}, NewOutcomes()
		specimens := map[string][]redistest.Specimen{
			"Group":   {{Value: c.group}},
			"Lookout": {{Value: lookout}},
			"Config":  {{Value: c.config, Open: true}, {Value: &c.config, Open: true}},
			"Seal":    {{Value: Seal{Read: []byte(key)}, Open: true}},
			"Floors":  {{Value: Floors{Read: []byte(key)}, Open: true}},
			"Encoded": {{Value: encoded, Open: true}}, "Claim": {{Value: Claim{Bytes: encoded.Bytes}, Open: true}, {Value: &Claim{Bytes: encoded.Bytes}, Open: true}},
			"Command": {{Value: Command{Encoded: encoded}, Open: true}, {Value: &Command{Encoded: encoded}, Open: true}},

			"Part": {{Value: Part{}}}, "Receipt": {{Value: Receipt{}}}, "Set": {{Value: Set(1)}}, "Allow": {{Value: Allow{}}},
			"Kind": {{Value: Kind{}}}, "ClaimKind": {{Value: &ClaimKind{}}}, "ExtendKind": {{Value: &ExtendKind{}}},
			"ReleaseKind": {{Value: &ReleaseKind{}}}, "Merger": {{Value: &Merger{}}}, "Form": {{Value: Form{}}},
			"Outcomes": {{Value: inbox}}, "Posting": {{Value: Posting{Inbox: inbox}}}, "Outcome": {{Value: Outcome{Err: cause}}},
			"Answer": {{Value: Answer{Err: cause}}}, "Vote": {{Value: Granted}}, "Mode": {{Value: Mode(0)}}, "Verdict": {{Value: Verdict(0)}},
			"Tally": {{Value: Tally{}}}, "State": {{Value: Up}}, "News": {{Value: News(0)}}, "Change": {{Value: Change{Err: cause}}},
			"Status": {{Value: c.group.Nodes()[0]}}, "NodeCounts": {{Value: c.group.Nodes()[0].Counts}}, "Membership": {{Value: c.group.Membership()}},
			"NodeError": {{Value: cause}}, "UndecidedError": {{Value: &UndecidedError{Nodes: []*NodeError{cause}}}},
			"RefusalError": {{Value: &RefusalError{}}}, "QuarantineError": {{Value: &QuarantineError{}}}, "PreflightError": {{Value: &PreflightError{}}},
		}
		for _, name := range redistest.ExportedTypes(t, ".") {
			require.NotEmpty(t, specimens[name], "%s needs a specimen", name)
		}
		for _, all := range specimens {
			for _, s := range all {
				s.ShowsNone(t, password, key, "t0ken")
			}
		}
	}, eachNode(func(n *conn.Config) { n.Password, n.Conceal = password, "s3cret-pref1x:" }))
}
