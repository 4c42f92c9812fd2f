package resp_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/resp"
)

// tight limits are reached by short inputs.
var tight = resp.Limits{Line: 40, Bulk: 30, Elements: 12, Depth: 4, Size: 200}

// FuzzReader is R18: for any bytes there is no panic, the result is the same
// for every cut, memory is bounded by the received bytes, and views match what
// was sent.
func FuzzReader(f *testing.F) {
	for i, e := range table(f) {
		f.Add(e.wire, uint64(i), i%2 == 0)
	}
	for i, wire := range hostile {
		f.Add([]byte(wire[:min(len(wire), 4096)]), uint64(i), false)
	}
	f.Fuzz(func(t *testing.T, wire []byte, seed uint64, small bool) {
		limits := resp.Limits{}
		if small {
			limits = tight
		}
		if len(wire) > 64<<10 {
			return // whole below needs a single Commit
		}
		whole := resp.NewReader(limits)
		push(whole, wire)
		want := drain(whole, nil)
		rest := whole.Buffered()

		random := rand.New(rand.NewPCG(seed, 1))
		cut := resp.NewReader(limits)
		var got []string
		for sent := 0; sent < len(wire); {
			n := min(len(wire)-sent, 1+random.IntN(1+random.IntN(100)))
			push(cut, wire[sent:sent+n])
			sent += n
			if resp.Held(cut) > sent+allowance {
				t.Fatalf("%d bytes held after %d", resp.Held(cut), sent)
			}
			if !refused(got) {
				got = drain(cut, got)
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, rest, cut.Buffered())
		checkRaw(t, limits, wire)
	})
}

// checkRaw requires that the raw encodings of all values, joined, are the
// stream, and that each value's encoding decodes to an equal value.
func checkRaw(t *testing.T, limits resp.Limits, wire []byte) {
	r := resp.NewReader(limits)
	push(r, wire)
	for at := 0; ; {
		v, ok, err := r.Next()
		if !ok || err != nil {
			return
		}
		raw := v.Raw()
		require.True(t, bytes.HasPrefix(wire[at:], raw))
		at += len(raw)
		words := describe(v)
		if strings.Contains(words, "out of range") {
			continue
		}
		again := resp.NewReader(resp.Limits{})
		push(again, appendValue(nil, v))
		require.Equal(t, words, meaning(again))
	}
}
