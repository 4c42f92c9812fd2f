package resp_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/resp"
)

// allowance is what a Reader may hold beyond the bytes that it received (R18).
const allowance = 64 << 10

// hostile replies announce more than they contain.
var hostile = []string{
	"$1048576\r\n",
	"!1048576\r\nERR",
	"=1048576\r\ntxt:",
	"*1048576\r\n",
	"%524288\r\n",
	"~1048576\r\n+a\r\n",
	">1048576\r\n+message\r\n",
	"|524288\r\n",
	"*1048575\r\n$1048576\r\n",
	"$9223372036854775807\r\n",
	"$18446744073709551615\r\n",
	"*9223372036854775807\r\n",
	"%4611686018427387904\r\n",
	"$-9223372036854775808\r\n",
	"*-2147483648\r\n",
	"*1024\r\n" + strings.Repeat("*1000\r\n", 2000),
	strings.Repeat("*1000000\r\n", 100),
	strings.Repeat("*1\r\n", 100_000),
	strings.Repeat("|1\r\n", 100_000),
	strings.Repeat("|0\r\n", 100_000),
	"+" + strings.Repeat("x", 1<<20),
	"$" + strings.Repeat("0", 1<<20),
	":" + strings.Repeat("1", 1<<20),
}

// TestMemoryIsBounded checks the memory held after each read, for replies that
// lie and for replies that are merely large.
func TestMemoryIsBounded(t *testing.T) {
	honest := []string{
		"$1048576\r\n" + strings.Repeat("x", 1<<20) + "\r\n",
		"*1000000\r\n" + strings.Repeat("_\r\n", 1_000_000),
		strings.Repeat("$40000\r\n"+strings.Repeat("x", 40_000)+"\r\n", 40),
	}
	for _, wire := range append(honest, hostile...) {
		for _, piece := range []int{1000, 1 << 20} {
			r := resp.NewReader(resp.Limits{})
			received := 0
			for rest := wire; rest != ""; {
				n := copy(r.Space(), rest[:min(len(rest), piece)])
				r.Commit(n)
				received += n
				rest = rest[n:]
				most := resp.Held(r)
				for ok := true; ok; {
					_, ok, _ = r.Next()
				}
				if most = max(most, resp.Held(r)); most > received+allowance {
					t.Fatalf("%.20q: %d bytes held after %d", wire, most, received)
				}
			}
		}
	}
}

// TestLargeValueIsForgotten requires the memory of one large value to be freed.
func TestLargeValueIsForgotten(t *testing.T) {
	r := resp.NewReader(resp.Limits{})
	_, err := pushUntil(r, "$1048576\r\n"+strings.Repeat("x", 1<<20)+"\r\n")
	require.NoError(t, err)
	require.Greater(t, resp.Held(r), 1<<20)
	r.Space()
	require.Less(t, resp.Held(r), allowance)

	// The same if the buffer never runs empty: a part of a reply always waits.
	push(r, []byte("$1048576\r\n"+strings.Repeat("x", 1<<20)+"\r\n:"))
	drain(r, nil)
	require.Greater(t, resp.Held(r), 1<<20)
	for range 20_000 {
		push(r, []byte("1\r\n:"))
		require.Len(t, drain(r, nil), 1)
	}
	require.Less(t, resp.Held(r), allowance)
}

// TestOneByteAtATimeIsLinear checks after each byte that the Reader remembers
// all that it has parsed. A quadratic parser would hardly finish.
func TestOneByteAtATimeIsLinear(t *testing.T) {
	size := 4 << 20
	if resp.Poisoned {
		size = 1 << 18 // the race detector is slow
	}
	wires := map[string]string{
		"bulk":            "$" + itoa(size) + "\r\n" + strings.Repeat("x", size) + "\r\n",
		"long length":     "$" + strings.Repeat("0", 60_000) + itoa(size) + "\r\n" + strings.Repeat("x", size) + "\r\n",
		"lines":           "*64\r\n" + strings.Repeat("+"+strings.Repeat("x", size/64)+"\r\n", 64),
		"flat array":      "*" + itoa(size/4) + "\r\n" + strings.Repeat(":1\r\n", size/4),
		"attributes":      "*" + itoa(size/16) + "\r\n" + strings.Repeat("|1\r\n_\r\n_\r\n_\r\n", size/16),
		"nested":          strings.Repeat("*1\r\n", 30) + "*" + itoa(size/4) + "\r\n" + strings.Repeat("*0\r\n", size/4),
		"values in a row": strings.Repeat("*2\r\n$5\r\nhello\r\n:17\r\n", size/20),
	}
	limits := resp.Limits{Bulk: size, Size: 2 * size, Elements: size}
	for name, wire := range wires {
		r := resp.NewReader(limits)
		values := 0
		for i := range len(wire) {
			r.Space()[0] = wire[i]
			r.Commit(1)
			_, ok, err := r.Next()
			if err != nil {
				t.Fatalf("%s: %v after %d bytes", name, err, i+1)
			}
			if ok {
				values++
			}
			if n := resp.Unjudged(r); n > 1 { // a CR waits for its LF
				t.Fatalf("%s: %d bytes will be looked at again after %d", name, n, i+1)
			}
		}
		require.Zero(t, r.Buffered(), name)
		require.NotZero(t, values, name)
	}
}
