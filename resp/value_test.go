package resp_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/resp"
)

// decode returns the single value of wire. The value stays valid until the next
// call to its reader.
func decode(t testing.TB, wire string) resp.Value {
	t.Helper()
	r := resp.NewReader(resp.Limits{})
	push(r, []byte(wire))
	v, ok, err := r.Next()
	require.NoError(t, err, "%q", wire)
	require.True(t, ok, "%q", wire)
	require.Zero(t, r.Buffered(), "%q", wire)
	return v
}

func TestZeroValue(t *testing.T) {
	var v resp.Value
	_, isError := v.AsError()
	_, hasAttributes := v.Attributes()
	assert.False(t, v.IsNull() || v.IsOK() || v.IsError() || isError || hasAttributes)
	assert.Zero(t, int(v.Type())+v.Len()+len(v.Bytes())+len(v.Raw())+len(v.Format()))
	assert.Equal(t, `Type('\x00')`, v.Type().String())
	for range v.Elements() {
		t.Error("the zero Value has an element")
	}
	for range v.Pairs() {
		t.Error("the zero Value has a pair")
	}
}

// TestPairs stops at the first pair of a map, and reads a flat list of RESP2,
// whose last key lacks its value.
func TestPairs(t *testing.T) {
	for wire, want := range map[string][]string{
		"%2\r\n+stop\r\n:1\r\n+b\r\n:2\r\n": {"stop 1"}, "*3\r\n+a\r\n:1\r\n+odd\r\n": {"a 1", "odd "},
	} {
		var got []string
		for key, value := range decode(t, wire).Pairs() {
			got = append(got, string(key.Bytes())+" "+strings.Trim(string(value.Raw()), ":\r\n"))
			if string(key.Bytes()) == "stop" {
				break
			}
		}
		assert.Equal(t, want, got)
	}
}

// TestAttributesOfAttributes takes them one after the other, the last first.
func TestAttributesOfAttributes(t *testing.T) {
	next := decode(t, "|0\r\n|1\r\n|1\r\n+x\r\n+y\r\n:1\r\n:2\r\n|2\r\n:3\r\n:4\r\n:5\r\n:6\r\n*1\r\n|1\r\n:7\r\n:8\r\n:9\r\n")
	for _, want := range []struct{ elements, bytes int }{{4, 48}, {2, 28}, {0, 4}} {
		attribute, ok := next.Attributes()
		require.True(t, ok)
		assert.Equal(t, want.elements, attribute.Len())
		assert.Len(t, attribute.Raw(), want.bytes)
		next = attribute
	}
	_, ok := next.Attributes()
	assert.False(t, ok)
}

// TestViewsCannotGrow is the reason why a view is b[i:j:j]: an append copies
// and does not overwrite what follows.
func TestViewsCannotGrow(t *testing.T) {
	r := resp.NewReader(resp.Limits{})
	push(r, []byte("|1\r\n+k\r\n+v\r\n*4\r\n$2\r\nab\r\n=5\r\ntxt:c\r\n-ERR x\r\n+d\r\n+OK\r\n:1\r\n"))
	v, ok, _ := r.Next()
	require.True(t, ok)
	grow := func(b []byte) { _ = append(b, '!') }
	for e := range v.Elements() {
		for _, view := range [][]byte{e.Bytes(), e.Format(), e.Raw(), e.ErrorPrefix()} {
			grow(view)
		}
	}
	attribute, _ := v.Attributes()
	grow(attribute.Raw())
	grow(v.Raw())
	assert.Equal(t, `Attribute {SimpleString "k": SimpleString "v"} `+
		`Array [BulkString "ab", VerbatimString txt "c", SimpleError "ERR x", SimpleString "d"]`, describe(v))
	v, ok, _ = r.Next()
	require.True(t, ok)
	grow(v.Raw())
	grow(v.Bytes())
	assert.Equal(t, `SimpleString "OK"`, describe(v))
	assert.Equal(t, "Integer 1", meaning(r))
}

func TestFloat64(t *testing.T) {
	for wire, want := range map[string]float64{
		",1e308\r\n":                   1e308,
		",-1.7976931348623157e308\r\n": -math.MaxFloat64,
		",5e-324\r\n":                  5e-324,
		",1e-400\r\n":                  0,
		",inf\r\n":                     math.Inf(1),
		",-inf\r\n":                    math.Inf(-1),
	} {
		f, ok := decode(t, wire).Float64()
		assert.True(t, ok, wire)
		assert.Equal(t, want, f, wire)
	}
	for _, nan := range []string{"nan", "-nan", "+nan", "NaN", "-NAN", "nan(0x7ff8)", "-nan(ind)"} {
		f, ok := decode(t, ","+nan+"\r\n").Float64()
		assert.True(t, ok && math.IsNaN(f), nan)
	}
	f, ok := decode(t, ",-0\r\n").Float64()
	assert.True(t, ok && f == 0 && math.Signbit(f))
	f, ok = decode(t, ",-1e999\r\n").Float64()
	assert.False(t, ok)
	assert.True(t, math.IsInf(f, -1))
}
