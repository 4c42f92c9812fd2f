package resp_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redmux/redmux/resp"
)

// TestEncodedDecodes encodes random values, sends them in random pieces, and
// wants them back: what comes out is told in words that were made without the
// decoder.
func TestEncodedDecodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire []byte
		var want []string
		for range rapid.IntRange(1, 4).Draw(t, "values") {
			var words string
			wire, words = drawValue(t, wire, 0)
			want = append(want, words)
		}
		r := resp.NewReader(resp.Limits{})
		var got []string
		for rest := wire; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			push(r, rest[:n])
			rest = rest[n:]
			got = drain(r, got)
		}
		require.Equal(t, want, got, "%q", wire)
		require.Zero(t, r.Buffered())
	})
}

var (
	textOf   = rapid.StringOfN(rapid.RuneFrom([]rune("ab\r\n\x00é:$*+- ")), 0, 20, -1)
	lineOf   = rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00é:$*+- ")), 0, 20, -1)
	digitsOf = rapid.StringMatching(`-?[0-9]{1,40}`)
	formatOf = rapid.SampledFrom([]string{"txt", "mkd", ":::", "\r\n:"})
)

// drawValue appends a random value and returns what describe shall say of it.
func drawValue(t *rapid.T, dst []byte, depth int) ([]byte, string) {
	if depth < 4 && rapid.IntRange(0, 9).Draw(t, "attribute") == 0 {
		n := rapid.IntRange(0, 2).Draw(t, "pairs")
		dst = resp.AppendAttribute(dst, n)
		dst, pairs := drawPairs(t, dst, n, depth)
		dst, own := drawOwn(t, dst, depth)
		return dst, "Attribute " + pairs + " " + own
	}
	return drawOwn(t, dst, depth)
}

func drawOwn(t *rapid.T, dst []byte, depth int) ([]byte, string) {
	last := 16
	if depth >= 4 {
		last = 12 // no aggregates
	}
	switch rapid.IntRange(0, last).Draw(t, "type") {
	case 0:
		s := lineOf.Draw(t, "text")
		return resp.AppendSimpleString(dst, s), fmt.Sprintf("SimpleString %q", s)
	case 1:
		s := lineOf.Draw(t, "text")
		return resp.AppendSimpleError(dst, s), fmt.Sprintf("SimpleError %q", s)
	case 2, 3:
		i := rapid.Int64().Draw(t, "integer")
		return resp.AppendInteger(dst, i), fmt.Sprintf("Integer %d", i)
	case 4:
		s := textOf.Draw(t, "text")
		return resp.AppendBulkString(dst, s), fmt.Sprintf("BulkString %q", s)
	case 5:
		return resp.AppendNull(dst), "Null"
	case 6:
		return resp.AppendNullBulkString(dst), "BulkString null"
	case 7:
		return resp.AppendNullArray(dst), "Array null"
	case 8:
		b := rapid.Bool().Draw(t, "boolean")
		return resp.AppendBoolean(dst, b), fmt.Sprintf("Boolean %t", b)
	case 9:
		f := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.Inf(1), math.Inf(-1), math.NaN()})).Draw(t, "double")
		return resp.AppendDouble(dst, f), "Double " + formatFloat(f)
	case 10:
		s := digitsOf.Draw(t, "digits")
		return resp.AppendBigNumber(dst, s), fmt.Sprintf("BigNumber %q", s)
	case 11:
		s := textOf.Draw(t, "text")
		return resp.AppendBulkError(dst, s), fmt.Sprintf("BulkError %q", s)
	case 12:
		format, s := formatOf.Draw(t, "format"), textOf.Draw(t, "text")
		return resp.AppendVerbatimString(dst, format, s), fmt.Sprintf("VerbatimString %s %q", escape([]byte(format)), s)
	}
	return drawAggregate(t, dst, depth)
}

func drawAggregate(t *rapid.T, dst []byte, depth int) ([]byte, string) {
	n := rapid.IntRange(0, 3).Draw(t, "elements")
	kinds := []string{"Array", "Set", "Map", "Push"}
	if depth > 0 {
		kinds = kinds[:3] // a push stands within nothing
	}
	kind := rapid.SampledFrom(kinds).Draw(t, "aggregate")
	var words string
	switch kind {
	case "Map":
		dst, words = drawPairs(t, resp.AppendMap(dst, n), n, depth)
		return dst, kind + " " + words
	case "Array":
		dst = resp.AppendArray(dst, n)
	case "Set":
		dst = resp.AppendSet(dst, n)
	case "Push":
		dst = resp.AppendPush(dst, n)
	}
	elements := make([]string, n)
	for i := range elements {
		dst, elements[i] = drawValue(t, dst, depth+1)
	}
	return dst, kind + " [" + strings.Join(elements, ", ") + "]"
}

func drawPairs(t *rapid.T, dst []byte, n, depth int) ([]byte, string) {
	pairs := make([]string, n)
	for i := range pairs {
		var key, value string
		dst, key = drawValue(t, dst, depth+1)
		dst, value = drawValue(t, dst, depth+1)
		pairs[i] = key + ": " + value
	}
	return dst, "{" + strings.Join(pairs, ", ") + "}"
}
