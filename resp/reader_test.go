package resp_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/resp"
)

// push passes bytes to the reader, as much at a time as it has room for.
func push(r *resp.Reader, wire []byte) {
	for len(wire) > 0 {
		n := copy(r.Space(), wire)
		r.Commit(n)
		wire = wire[n:]
	}
}

func TestTable(t *testing.T) {
	for _, e := range table(t) {
		r := resp.NewReader(e.limits)
		push(r, e.wire)
		assert.Equal(t, e.meaning, meaning(r), e.place)
	}
}

// TestTableCutAnywhere is R18's "the same result for every split": two pieces,
// cut at every byte, with a call of Next in between.
func TestTableCutAnywhere(t *testing.T) {
	for _, e := range table(t) {
		for i := range e.wire {
			r := resp.NewReader(e.limits)
			push(r, e.wire[:i])
			said := drain(r, nil)
			push(r, e.wire[i:])
			if !refused(said) {
				said = outcome(r, said)
			}
			require.Equal(t, e.meaning, strings.Join(said, " then "), "%s cut at %d", e.place, i)
		}
	}
}

func TestTableByteByByte(t *testing.T) {
	for _, e := range table(t) {
		r := resp.NewReader(e.limits)
		src := iotest.OneByteReader(strings.NewReader(string(e.wire)))
		var said []string
		for range e.wire {
			n, err := r.Fill(src)
			require.NoError(t, err, e.place)
			require.Equal(t, 1, n, e.place)
			if said = drain(r, said); refused(said) {
				break
			}
		}
		if !refused(said) {
			said = outcome(r, said)
		}
		require.Equal(t, e.meaning, strings.Join(said, " then "), e.place)
	}
}

func refused(said []string) bool {
	return len(said) > 0 && strings.HasPrefix(said[len(said)-1], "refused")
}

// TestTablePrefixes requires that no value comes before its last byte, and that
// what follows a value does not change it.
func TestTablePrefixes(t *testing.T) {
	for _, e := range table(t) {
		r := resp.NewReader(e.limits)
		push(r, e.wire)
		v, ok, _ := r.Next()
		if !ok {
			continue
		}
		first, size := describe(v), len(v.Raw())
		require.Equal(t, e.wire[:size:size], v.Raw(), e.place)
		for i := range size {
			r := resp.NewReader(e.limits)
			push(r, e.wire[:i])
			_, ok, err := r.Next()
			require.NoError(t, err, e.place)
			require.False(t, ok, "%s: a value out of %q", e.place, e.wire[:i])
		}
		r = resp.NewReader(e.limits)
		push(r, e.wire[:size:size])
		v, ok, _ = r.Next()
		require.True(t, ok, e.place)
		require.Equal(t, first, describe(v), e.place)
	}
}

// TestTableRoundTrip encodes what was decoded; it must decode to the same
// again.
func TestTableRoundTrip(t *testing.T) {
	for _, e := range table(t) {
		if strings.Contains(e.meaning, "out of range") {
			continue // no float64 has this value
		}
		r := resp.NewReader(e.limits)
		push(r, e.wire)
		for {
			v, ok, err := r.Next()
			if !ok || err != nil {
				break
			}
			want, wire := describe(v), appendValue(nil, v)
			again := resp.NewReader(resp.Limits{})
			push(again, wire)
			require.Equal(t, want, meaning(again), e.place)
		}
	}
}

// TestErrorIsSticky is R16: nothing after an error is parsed, not even bytes
// that arrive later, until Reset.
func TestErrorIsSticky(t *testing.T) {
	r := resp.NewReader(resp.Limits{})
	push(r, []byte(":1\r\n:x\r\n+OK\r\n"))
	_, ok, err := r.Next()
	require.True(t, ok)
	require.NoError(t, err)
	_, ok, first := r.Next()
	require.False(t, ok)
	require.EqualError(t, first, "resp: integer is not a decimal number of 64 bits at byte 4")
	for range 3 {
		assert.Zero(t, r.Buffered())
		assert.NotEmpty(t, r.Space())
		push(r, []byte("+OK\r\n"))
		v, ok, err := r.Next()
		assert.Same(t, first, err)
		assert.False(t, ok)
		assert.Equal(t, resp.Value{}, v)
	}
	r.Reset()
	push(r, []byte("+OK\r\n:x\r\n"))
	assert.Equal(t, `SimpleString "OK" then refused at 5: integer is not a decimal number of 64 bits`, meaning(r))
}

func TestResetWithinValue(t *testing.T) {
	for _, part := range []string{"*2\r\n:1\r\n$10\r\nabc", "+lo", "|1\r\n:1\r\n", "*1\r\n*1\r\n*1\r\n:"} {
		r := resp.NewReader(resp.Limits{Depth: 3, Elements: 4})
		push(r, []byte(part))
		_, ok, err := r.Next()
		require.NoError(t, err)
		require.False(t, ok)
		r.Reset()
		assert.Zero(t, r.Buffered())
		push(r, []byte("*3\r\n:1\r\n:2\r\n:3\r\nx"))
		assert.Equal(t, "Array [Integer 1, Integer 2, Integer 3] then refused at 16: unknown type byte 'x'", meaning(r))
	}
}

// TestOffsets counts offsets while a buffer that hardly ever runs empty slides
// and grows.
func TestOffsets(t *testing.T) {
	var wire []byte
	for i := range 3000 {
		wire = resp.AppendBulkString(wire, strings.Repeat("x", i%700))
	}
	wire = resp.AppendBulkString(wire, strings.Repeat("x", 100_000))
	want := fmt.Sprintf("refused at %d: unknown type byte '?'", len(wire))
	wire = append(wire, '?')
	for _, piece := range []int{300, 997, 20_000} {
		r := resp.NewReader(resp.Limits{})
		var said []string
		for rest := wire; len(rest) > 0; {
			n := min(piece, len(rest))
			push(r, rest[:n])
			rest = rest[n:]
			said = drain(r, said)
		}
		require.Len(t, said, 3002)
		require.Equal(t, want, said[3001], piece)
	}
}

func TestBuffered(t *testing.T) {
	r := resp.NewReader(resp.Limits{})
	assert.Zero(t, r.Buffered())
	push(r, []byte("+OK\r\n:12"))
	assert.Equal(t, 8, r.Buffered())
	_, ok, _ := r.Next()
	require.True(t, ok)
	assert.Equal(t, 3, r.Buffered())
	push(r, []byte("\r\n"))
	_, ok, _ = r.Next()
	require.True(t, ok)
	assert.Zero(t, r.Buffered())
}

func TestFillPassesOn(t *testing.T) {
	r := resp.NewReader(resp.Limits{})
	n, err := r.Fill(iotest.DataErrReader(strings.NewReader("+OK\r\n")))
	assert.Equal(t, 5, n)
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, `SimpleString "OK"`, meaning(r), "bytes that come with an error count")
	failure := errors.New("broken")
	n, err = r.Fill(iotest.ErrReader(failure))
	assert.Zero(t, n)
	assert.Equal(t, failure, err)
}

func TestCommitPanics(t *testing.T) {
	r := resp.NewReader(resp.Limits{})
	room := len(r.Space())
	assert.Panics(t, func() { r.Commit(room + 1) })
	assert.Panics(t, func() { r.Commit(-1) })
	assert.NotPanics(t, func() { r.Commit(0) })
}

// TestDepthIsNotRecursion sends a hundred thousand open arrays.
func TestDepthIsNotRecursion(t *testing.T) {
	for _, header := range []string{"*1\r\n", "%1\r\n:1\r\n", "~1\r\n", "|1\r\n", "|1\r\n:1\r\n", "|0\r\n"} {
		for _, depth := range []int{0, 5, 1 << 20} {
			r := resp.NewReader(resp.Limits{Depth: depth})
			push(r, []byte(strings.Repeat(header, 100_000)))
			_, ok, err := r.Next()
			require.False(t, ok)
			require.ErrorContains(t, err, "depth exceeds its limit", header)
		}
	}
}

// TestDepthAtLimit nests as deep as is allowed, and walks the value.
func TestDepthAtLimit(t *testing.T) {
	for _, depth := range []int{32, 1024} {
		r := resp.NewReader(resp.Limits{Depth: depth})
		push(r, []byte(strings.Repeat("*1\r\n", depth)+":7\r\n"))
		v, ok, err := r.Next()
		require.NoError(t, err)
		require.True(t, ok)
		for range depth {
			require.Equal(t, 1, v.Len())
			for e := range v.Elements() {
				v = e
			}
		}
		assert.Equal(t, "Integer 7", describe(v))
	}
}

// TestDefaultLimits checks the numbers of R18.
func TestDefaultLimits(t *testing.T) {
	at := []struct{ name, prefix, unit, suffix string }{
		{"line ≤ 64 KiB", "+", strings.Repeat("x", 64<<10), "\r\n"},
		{"bulk ≤ 1 MiB", "$1048576\r\n", strings.Repeat("x", 1<<20), "\r\n"},
		{"elements ≤ 1 M", "*1048576\r\n", strings.Repeat("_\r\n", 1<<20), ""},
	}
	for _, c := range at {
		r := resp.NewReader(resp.Limits{})
		v, err := pushUntil(r, c.prefix+c.unit+c.suffix)
		require.NoError(t, err, c.name)
		require.NotZero(t, v.Type(), c.name)
	}
	beyond := []string{
		"+" + strings.Repeat("x", 64<<10+1) + "\r\n",
		"$1048577\r\n",
		"*1048577\r\n",
		"%524289\r\n",
		"*2\r\n:1\r\n*1048575\r\n",
		strings.Repeat("*1\r\n", 33),
		"*4\r\n" + strings.Repeat("$1048576\r\n"+strings.Repeat("x", 1<<20)+"\r\n", 4),
	}
	for _, wire := range beyond {
		r := resp.NewReader(resp.Limits{})
		_, err := pushUntil(r, wire)
		require.ErrorContains(t, err, "limit", wire[:min(len(wire), 20)])
	}
}

// TestLargestLimits reaches counts of pairs that do not fit into 32 bits.
func TestLargestLimits(t *testing.T) {
	for _, wire := range []string{"%1073741824\r\n", "%2147483647\r\n", "*1073741825\r\n", "$1073741825\r\n", "$2147483647\r\n"} {
		r := resp.NewReader(resp.Limits{Line: math.MaxInt, Bulk: math.MaxInt, Elements: math.MaxInt, Size: math.MaxInt})
		_, err := pushUntil(r, wire)
		require.ErrorContains(t, err, "limit", wire)
	}
}

// pushUntil passes bytes as room allows, as a connection does, and returns the
// first value or error.
func pushUntil(r *resp.Reader, wire string) (resp.Value, error) {
	src := strings.NewReader(wire)
	for {
		v, ok, err := r.Next()
		if ok || err != nil {
			return v, err
		}
		if _, err = r.Fill(src); err != nil {
			return resp.Value{}, err
		}
	}
}

// TestSizeFollowsBulk accepts a larger bulk string without a second setting.
func TestSizeFollowsBulk(t *testing.T) {
	r := resp.NewReader(resp.Limits{Bulk: 5 << 20})
	v, err := pushUntil(r, string(resp.AppendBulkString(nil, strings.Repeat("x", 5<<20))))
	require.NoError(t, err)
	require.Len(t, v.Bytes(), 5<<20)
}

// TestUnreadIsBounded never calls Next; the reader must not hoard bytes.
func TestUnreadIsBounded(t *testing.T) {
	r := resp.NewReader(resp.Limits{Bulk: 1 << 10, Size: 64 << 10})
	for range 100 {
		push(r, []byte(strings.Repeat("+OK\r\n", 1<<10)))
		require.Less(t, resp.Held(r), 200<<10)
	}
	_, ok, err := r.Next()
	require.False(t, ok)
	require.ErrorContains(t, err, "not yet taken by Next")
}

// TestViewsAreTakenBack is R20: in race builds the use of an expired view
// shows, after each of the calls that end it, and nothing else is overwritten.
func TestViewsAreTakenBack(t *testing.T) {
	ends := map[string]func(r *resp.Reader){
		"Next":  func(r *resp.Reader) { r.Next() },
		"Space": func(r *resp.Reader) { r.Space() },
		"Fill":  func(r *resp.Reader) { r.Fill(strings.NewReader("+")) },
		"Reset": func(r *resp.Reader) { r.Reset() },
	}
	for name, end := range ends {
		r := resp.NewReader(resp.Limits{})
		push(r, []byte("$3\r\nold\r\n$3\r\nnew\r\n$3\r\npart"[:20]))
		v, ok, _ := r.Next()
		require.True(t, ok)
		view := v.Bytes()
		require.Equal(t, "old", string(view))
		end(r)
		if resp.Poisoned {
			assert.Equal(t, "\xdb\xdb\xdb", string(view), name)
			assert.PanicsWithValue(t, "resp: value changed after it was decoded", func() { v.IsOK() }, name)
		}
		if name == "Space" {
			v, ok, _ = r.Next()
			require.True(t, ok)
			assert.Equal(t, "new", string(v.Bytes()), "only what was consumed is poisoned")
		}
	}
}

// TestStaleElements is a programmer's error that every build notices, if the
// bytes are no longer those of the value.
func TestStaleElements(t *testing.T) {
	for _, other := range []string{
		"*2\r\n*9\r\n:2\r\n",
		"*2\r\n:1\r\n$9\r\n",
		"*2\r\n*2\r\n$9\r\n",
		"*2\r\n??\r\n:2\r\n",
	} {
		r := resp.NewReader(resp.Limits{})
		push(r, []byte("*2\r\n:1\r\n:2\r\n"))
		v, _, _ := r.Next()
		push(r, []byte(other))
		r.Next()
		assert.PanicsWithValue(t, "resp: value changed after it was decoded", func() {
			for range v.Elements() {
			}
		}, other)
	}
}

func TestSyntaxErrorText(t *testing.T) {
	err := &resp.SyntaxError{Offset: 7, Reason: "null is not empty"}
	assert.EqualError(t, err, "resp: null is not empty at byte 7")
	assert.Equal(t, "resp: null is not empty at byte 7", fmt.Sprint(err))
}
