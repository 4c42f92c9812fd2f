package resp_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/resp"
)

// TestEncodedDecodes encodes random values, sends them in random pieces, and
// compares the result with descriptions made without the decoder.
func TestEncodedDecodes(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var wire []byte
		var want []string
		for range 1 + rng.IntN(4) {
			var words string
			wire, words = drawValue(rng, wire, 0)
			want = append(want, words)
		}
		r := resp.NewReader(resp.Limits{})
		var got []string
		for rest := wire; len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			push(r, rest[:n])
			rest = rest[n:]
			got = drain(r, got)
		}
		require.Equal(t, want, got, "%q", wire)
		require.Zero(t, r.Buffered())
	}
}

var formats = []string{"txt", "mkd", ":::", "\r\n:"}

// drawText returns up to 20 arbitrary characters.
func drawText(rng *rand.Rand) string { return drawFrom(rng, "ab\r\n\x00é:$*+- ", rng.IntN(21)) }

// drawLine is drawText without line ends.
func drawLine(rng *rand.Rand) string { return drawFrom(rng, "ab\x00é:$*+- ", rng.IntN(21)) }

func drawFrom(rng *rand.Rand, alphabet string, n int) string {
	runes := []rune(alphabet)
	var b strings.Builder
	for range n {
		b.WriteRune(runes[rng.IntN(len(runes))])
	}
	return b.String()
}

func drawDigits(rng *rand.Rand) string {
	sign := ""
	if rng.IntN(2) == 0 {
		sign = "-"
	}
	return sign + drawFrom(rng, "0123456789", 1+rng.IntN(40))
}

// drawInteger returns integers of every length.
func drawInteger(rng *rand.Rand) int64 { return int64(rng.Uint64()) >> rng.IntN(64) }

// drawDouble returns any double: finite ones of every exponent, infinities and
// NaN.
func drawDouble(rng *rand.Rand) float64 {
	switch rng.IntN(8) {
	case 0:
		return math.Inf(1)
	case 1:
		return math.Inf(-1)
	case 2:
		return math.NaN()
	case 3:
		return float64(rng.IntN(1000)) / 8
	}
	return math.Float64frombits(rng.Uint64())
}

// drawValue appends a random value and returns the expected result of describe.
func drawValue(rng *rand.Rand, dst []byte, depth int) ([]byte, string) {
	if depth < 4 && rng.IntN(10) == 0 {
		n := rng.IntN(3)
		dst = resp.AppendAttribute(dst, n)
		dst, pairs := drawPairs(rng, dst, n, depth)
		dst, own := drawOwn(rng, dst, depth)
		return dst, "Attribute " + pairs + " " + own
	}
	return drawOwn(rng, dst, depth)
}

func drawOwn(rng *rand.Rand, dst []byte, depth int) ([]byte, string) {
	last := 16
	if depth >= 4 {
		last = 12 // no aggregates
	}
	switch rng.IntN(last + 1) {
	case 0:
		s := drawLine(rng)
		return resp.AppendSimpleString(dst, s), fmt.Sprintf("SimpleString %q", s)
	case 1:
		s := drawLine(rng)
		return resp.AppendSimpleError(dst, s), fmt.Sprintf("SimpleError %q", s)
	case 2, 3:
		i := drawInteger(rng)
		return resp.AppendInteger(dst, i), fmt.Sprintf("Integer %d", i)
	case 4:
		s := drawText(rng)
		return resp.AppendBulkString(dst, s), fmt.Sprintf("BulkString %q", s)
	case 5:
		return resp.AppendNull(dst), "Null"
	case 6:
		return resp.AppendNullBulkString(dst), "BulkString null"
	case 7:
		return resp.AppendNullArray(dst), "Array null"
	case 8:
		b := rng.IntN(2) == 0
		return resp.AppendBoolean(dst, b), fmt.Sprintf("Boolean %t", b)
	case 9:
		f := drawDouble(rng)
		return resp.AppendDouble(dst, f), "Double " + formatFloat(f)
	case 10:
		s := drawDigits(rng)
		return resp.AppendBigNumber(dst, s), fmt.Sprintf("BigNumber %q", s)
	case 11:
		s := drawText(rng)
		return resp.AppendBulkError(dst, s), fmt.Sprintf("BulkError %q", s)
	case 12:
		format, s := formats[rng.IntN(len(formats))], drawText(rng)
		return resp.AppendVerbatimString(dst, format, s), fmt.Sprintf("VerbatimString %s %q", escape([]byte(format)), s)
	}
	return drawAggregate(rng, dst, depth)
}

func drawAggregate(rng *rand.Rand, dst []byte, depth int) ([]byte, string) {
	n := rng.IntN(4)
	kinds := []string{"Array", "Set", "Map", "Push"}
	if depth > 0 {
		kinds = kinds[:3] // a push is never nested
	}
	kind := kinds[rng.IntN(len(kinds))]
	var words string
	switch kind {
	case "Map":
		dst, words = drawPairs(rng, resp.AppendMap(dst, n), n, depth)
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
		dst, elements[i] = drawValue(rng, dst, depth+1)
	}
	return dst, kind + " [" + strings.Join(elements, ", ") + "]"
}

func drawPairs(rng *rand.Rand, dst []byte, n, depth int) ([]byte, string) {
	pairs := make([]string, n)
	for i := range pairs {
		var key, value string
		dst, key = drawValue(rng, dst, depth+1)
		dst, value = drawValue(rng, dst, depth+1)
		pairs[i] = key + ": " + value
	}
	return dst, "{" + strings.Join(pairs, ", ") + "}"
}
