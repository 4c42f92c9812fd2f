package resp_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/resp"
)

// confines are limits that short inputs meet, each in its turn, and the
// ordinary ones.
var confines = []resp.Limits{
	{},
	tight,
	{Line: 5, Bulk: 4},
	{Elements: 3, Depth: 2},
	{Depth: 1},
	{Size: 16},
	{Line: 20, Size: 24, Elements: 5, Depth: 3, Bulk: 9},
	{Size: 1},
}

// FuzzReference compares the Reader with a second decoder that was written from
// the specification: the values, their accessors, the error with its offset and
// the bytes left, for the whole input, for a random cut and for a cut after
// every byte (R18).
func FuzzReference(f *testing.F) {
	for i, e := range table(f) {
		f.Add(e.wire, byte(0), uint64(i))
		f.Add(e.wire, byte(i), uint64(i))
	}
	for i, wire := range hostile {
		f.Add([]byte(wire[:min(len(wire), 4096)]), byte(i), uint64(i))
	}
	examiners := newExaminers()
	f.Fuzz(func(t *testing.T, wire []byte, limits byte, seed uint64) {
		if len(wire) > 256<<10 {
			return
		}
		e := examiners[int(limits)%len(examiners)]
		require.NoError(t, e.examine(wire, rand.New(rand.NewPCG(seed, 1))), "%q, %+v", wire, e.limits)
		if len(wire) < 256 {
			require.NoError(t, e.examine(wire, nil), "%q, %+v", wire, e.limits)
		}
	})
}

func newExaminers() []*examiner {
	var all []*examiner
	for _, limits := range confines {
		all = append(all, newExaminer(limits))
	}
	return all
}

// The reference agrees with the table, so that the Reader is not only compared
// with another decoder.
func TestReferenceKnowsTheTable(t *testing.T) {
	for _, e := range table(t) {
		x := newExaminer(e.limits)
		require.NoError(t, x.examine(e.wire, nil), e.place)
		whole := resp.NewReader(e.limits)
		push(whole, e.wire)
		require.Equal(t, e.meaning, meaning(whole), e.place)
	}
}
