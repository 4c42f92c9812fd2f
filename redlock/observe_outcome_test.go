package redlock

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/errtext"
)

// Each outcome has one word: of its error, also within another one, in the
// fields of CallCounts and in their JSON form.
func TestEachOutcomeHasOneWord_R12(t *testing.T) {
	events := map[string][]error{
		"granted":    {nil},
		"held":       {ErrHeld, &HeldError{}},
		"not_held":   {ErrNotHeld},
		"no_quorum":  {ErrNoQuorum, &noQuorumError{nodes: &UndecidedError{}}},
		"expired":    {ErrExpired, errSlept},
		"overloaded": {ErrOverloaded},
		"cancelled":  {&CancelledError{Err: context.Canceled, Last: ErrHeld}, &CancelledError{Err: context.Canceled, Cause: ErrLost}},
		"closed":     {ErrClosed},
		"invalid":    {ErrTTL, ErrResource, errtext.Wrap("two errors", ErrTTL, ErrHeld)},
		"lost":       {ErrLost, &LostError{Nodes: []NodeAnswer{{Err: ErrNotHeld}}}},
	}
	for word, errs := range events {
		for _, err := range errs {
			require.Equal(t, word, Outcome(err), "%v", err)
			require.Equal(t, word, Outcome(named("r", err)), "%v", err)
			if err != nil {
				require.Equal(t, word, Outcome(fmt.Errorf("so: %w", err)), "%v", err)
			}
		}
	}

	counts := CallCounts{1, 2, 3, 4, 5, 6, 7, 8, 9}
	var all []string
	fields := reflect.TypeFor[CallCounts]()
	for word, n := range counts.All() {
		f := fields.Field(len(all))
		require.Equal(t, word, f.Tag.Get("json"))
		require.Equal(t, strings.ReplaceAll(word, "_", ""), strings.ToLower(f.Name))
		require.Equal(t, reflect.ValueOf(counts).Field(len(all)).Uint(), n)
		all = append(all, word)
	}
	require.EqualValues(t, 45, counts.Total())
	require.Len(t, all, fields.NumField())
	require.ElementsMatch(t, slices.Collect(maps.Keys(events)), append(all, "lost"))

	losses := maps.Collect(Stats{Lost: 7, LostNotHeld: 3}.Losses())
	require.Equal(t, map[string]uint64{"not_held": 3, "expired": 4}, losses)
	lost, _ := reflect.TypeFor[Stats]().FieldByName("LostNotHeld")
	require.Equal(t, "lost_not_held", lost.Tag.Get("json"))
	for range counts.All() {
		break // and the rest is not asked for
	}
}
