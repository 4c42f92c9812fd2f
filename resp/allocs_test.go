//go:build !race

package resp_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/resp"
)

// TestDecodingAllocatesNothing covers every value of the tables: Fill, Next,
// and all methods of a Value except copies.
func TestDecodingAllocatesNothing(t *testing.T) {
	for _, e := range table(t) {
		if strings.Contains(e.meaning, "refused") || strings.Contains(e.meaning, "out of range") {
			continue // errors are built once in a connection's life
		}
		r := resp.NewReader(e.limits)
		src := strings.NewReader("")
		wire := string(e.wire)
		allocs := testing.AllocsPerRun(20, func() {
			r.Reset()
			src.Reset(wire)
			r.Fill(src)
			for {
				v, ok, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					return
				}
				touch(v)
			}
		})
		assert.Zero(t, allocs, e.place)
	}
}

// touch calls every accessor of a value, its elements and its attributes.
func touch(v resp.Value) (n int) {
	i, _ := v.Int64()
	f, _ := v.Float64()
	b, _ := v.Bool()
	if v.IsNull() || v.IsOK() || v.IsError() || b || f > 1 || i > 1 {
		n++
	}
	n += len(v.Bytes()) + len(v.Format()) + len(v.ErrorPrefix()) + len(v.Raw()) + v.Len()
	for e := range v.Elements() {
		n += touch(e)
	}
	for key, value := range v.Pairs() {
		n += touch(key) + touch(value)
	}
	if attribute, ok := v.Attributes(); ok {
		n += touch(attribute)
	}
	return n
}

func TestEncodingAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 1<<10)
	text, blob := "a text of some length, longer than thirty-two bytes", []byte("blob")
	allocs := testing.AllocsPerRun(100, func() {
		dst = resp.AppendCommand(dst[:0], "SET", text, "token", "NX", "PX", "10000")
		dst = resp.AppendArray(dst, 3)
		dst = resp.AppendMap(dst, 3)
		dst = resp.AppendSet(dst, 3)
		dst = resp.AppendPush(dst, 3)
		dst = resp.AppendAttribute(dst, 3)
		dst = resp.AppendBulkString(dst, text)
		dst = resp.AppendBulkString(dst, blob)
		dst = resp.AppendBulkError(dst, blob)
		dst = resp.AppendSimpleString(dst, text)
		dst = resp.AppendSimpleError(dst, blob)
		dst = resp.AppendVerbatimString(dst, "txt", blob)
		dst = resp.AppendInteger(dst, -1<<63)
		dst = resp.AppendDouble(dst, 1.5)
		dst = resp.AppendBigNumber(dst, "12345678901234567890")
		dst = resp.AppendBoolean(dst, true)
		dst = resp.AppendNull(dst)
		dst = resp.AppendNullArray(dst)
		dst = resp.AppendNullBulkString(dst)
	})
	assert.Zero(t, allocs)
}

// TestHostileRepliesAllocateLittle is R18 by the allocator's own count, garbage
// included, for replies that end before a buffer has to grow much.
func TestHostileRepliesAllocateLittle(t *testing.T) {
	for _, wire := range hostile {
		allocated := allocatedBy(func() {
			r := resp.NewReader(resp.Limits{})
			pushUntil(r, wire)
		})
		require.LessOrEqual(t, allocated, len(wire)+allowance, "%.20q", wire)
	}
}

func allocatedBy(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}
