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

// TestTable requires that the Reader and the reference say of each line what
// the table says. The reference is asked with a cut after every byte: no value
// comes before its last byte. What was decoded is encoded again, and decodes to
// the same.
func TestTable(t *testing.T) {
	for _, e := range table(t) {
		r := resp.NewReader(e.limits)
		push(r, e.wire)
		assert.Equal(t, e.meaning, meaning(r), e.place)
		require.NoError(t, newExaminer(e.limits).examine(e.wire, nil), e.place)
		require.NoError(t, roundTrip(e.limits, e.wire), e.place)
	}
}

// roundTrip encodes the values of wire. They must decode to the same again.
func roundTrip(limits resp.Limits, wire []byte) error {
	r, again := resp.NewReader(limits), resp.NewReader(resp.Limits{})
	push(r, wire)
	for {
		v, ok, err := r.Next()
		if !ok || err != nil {
			return nil
		}
		want := describe(v)
		if strings.Contains(want, "out of range") {
			continue // no float64 has this value
		}
		push(again, appendValue(nil, v))
		if got := meaning(again); got != want {
			return fmt.Errorf("%s became %s", want, got)
		}
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

func refused(said []string) bool {
	return len(said) > 0 && strings.HasPrefix(said[len(said)-1], "refused")
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

// TestLimits checks the numbers of R18: what may be, and what is too much. The
// largest counts do not fit into 32 bits, and depth is no recursion.
func TestLimits(t *testing.T) {
	none := resp.Limits{Line: math.MaxInt, Bulk: math.MaxInt, Elements: math.MaxInt, Size: math.MaxInt}
	x := strings.Repeat("x", 5<<20)
	for _, c := range []struct {
		limits   resp.Limits
		wire     string
		tooLarge bool
	}{
		{resp.Limits{}, "+" + x[:64<<10] + "\r\n", false},
		{resp.Limits{}, "+" + x[:64<<10+1] + "\r\n", true},
		{resp.Limits{}, "$1048576\r\n" + x[:1<<20] + "\r\n", false},
		{resp.Limits{}, "$1048577\r\n", true},
		{resp.Limits{Bulk: 5 << 20}, "$5242880\r\n" + x + "\r\n", false}, // Size follows
		{resp.Limits{}, "*4\r\n" + strings.Repeat("$1048576\r\n"+x[:1<<20]+"\r\n", 4), true},
		{resp.Limits{}, "*1048576\r\n" + strings.Repeat("_\r\n", 1<<20), false},
		{resp.Limits{}, "*1048577\r\n", true},
		{resp.Limits{}, "%524289\r\n", true},
		{resp.Limits{}, "*2\r\n:1\r\n*1048575\r\n", true},
		{resp.Limits{}, strings.Repeat("*1\r\n", 32) + "_\r\n", false},
		{resp.Limits{}, strings.Repeat("*1\r\n", 33), true},
		{resp.Limits{Depth: 1 << 20}, strings.Repeat("*1\r\n", 1024) + "_\r\n", false},
		{resp.Limits{Depth: 1 << 20}, strings.Repeat("%1\r\n:1\r\n", 100_000), true},
		{resp.Limits{Depth: 1 << 20}, strings.Repeat("|1\r\n", 100_000), true},
		{resp.Limits{Depth: 1 << 20}, strings.Repeat("|0\r\n", 100_000), true},
		{none, "%1073741824\r\n", true},
		{none, "%2147483647\r\n", true},
		{none, "*1073741825\r\n", true},
		{none, "$1073741825\r\n", true},
		{none, "$2147483647\r\n", true},
	} {
		name := c.wire[:min(len(c.wire), 20)]
		v, err := pushUntil(resp.NewReader(c.limits), c.wire)
		if c.tooLarge {
			require.ErrorContains(t, err, "limit", name)
			continue
		}
		require.NoError(t, err, name)
		require.Len(t, v.Raw(), len(c.wire), name)
		require.NotEmpty(t, describe(v), name)
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
