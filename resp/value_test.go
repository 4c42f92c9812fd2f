package resp_test

import (
	"math"
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

// TestWrongQuestions calls the accessors of other types on each type.
func TestWrongQuestions(t *testing.T) {
	cases := []struct {
		wire                      string
		integer, double, boolean  bool
		text, format, null, error bool
		length                    int
	}{
		{wire: "+1\r\n", text: true},
		{wire: "-1\r\n", text: true, error: true},
		{wire: ":1\r\n", integer: true},
		{wire: "$1\r\n1\r\n", text: true},
		{wire: "$-1\r\n", null: true},
		{wire: "*2\r\n:1\r\n:2\r\n", length: 2},
		{wire: "*-1\r\n", null: true},
		{wire: "_\r\n", null: true},
		{wire: "#t\r\n", boolean: true},
		{wire: ",1\r\n", double: true},
		{wire: "(1\r\n", text: true},
		{wire: "!1\r\n1\r\n", text: true, error: true},
		{wire: "=5\r\ntxt:1\r\n", text: true, format: true},
		{wire: "%1\r\n:1\r\n:2\r\n", length: 2},
		{wire: "~1\r\n:1\r\n", length: 1},
		{wire: ">1\r\n:1\r\n", length: 1},
		{wire: "|1\r\n:1\r\n:2\r\n:3\r\n", integer: true},
	}
	for _, c := range cases {
		v := decode(t, c.wire)
		_, integer := v.Int64()
		_, double := v.Float64()
		_, boolean := v.Bool()
		assert.Equal(t, c.integer, integer, c.wire)
		assert.Equal(t, c.double, double, c.wire)
		assert.Equal(t, c.boolean, boolean, c.wire)
		assert.Equal(t, c.text, v.Bytes() != nil, c.wire)
		assert.Equal(t, c.format, v.Format() != nil, c.wire)
		assert.Equal(t, c.null, v.IsNull(), c.wire)
		assert.Equal(t, c.error, v.IsError(), c.wire)
		err, isError := v.AsError()
		assert.Equal(t, c.error, isError && err != nil, c.wire)
		assert.Equal(t, c.error, v.ErrorPrefix() != nil, c.wire)
		assert.Equal(t, c.length, v.Len(), c.wire)
		elements := 0
		for range v.Elements() {
			elements++
		}
		assert.Equal(t, c.length, elements, c.wire)
		assert.Equal(t, c.wire, string(v.Raw()))
		assert.False(t, v.IsOK(), c.wire)
	}
}

func TestZeroValue(t *testing.T) {
	var v resp.Value
	assert.Zero(t, v.Type())
	assert.False(t, v.IsNull() || v.IsOK() || v.IsError())
	assert.Nil(t, v.Bytes())
	assert.Nil(t, v.Raw())
	assert.Nil(t, v.Format())
	_, ok := v.AsError()
	assert.False(t, ok)
	assert.Zero(t, v.Len())
	_, ok = v.Attributes()
	assert.False(t, ok)
	for range v.Elements() {
		t.Error("the zero Value has an element")
	}
	for range v.Pairs() {
		t.Error("the zero Value has a pair")
	}
}

func TestIsOK(t *testing.T) {
	for wire, want := range map[string]bool{
		"+OK\r\n":                     true,
		"|1\r\n+a\r\n:1\r\n+OK\r\n":   true,
		"+ok\r\n":                     false,
		"+OK \r\n":                    false,
		"+\r\n":                       false,
		"$2\r\nOK\r\n":                false,
		"-OK\r\n":                     false,
		"=6\r\ntxt:OK\r\n":            false,
		"*1\r\n+OK\r\n":               false,
		"|1\r\n+OK\r\n+OK\r\n_\r\n":   false,
		"|1\r\n+OK\r\n+OK\r\n-OK\r\n": false,
	} {
		assert.Equal(t, want, decode(t, wire).IsOK(), wire)
	}
}

// TestEmptyIsNotNull tells an empty payload from null.
func TestEmptyIsNotNull(t *testing.T) {
	for _, wire := range []string{"+\r\n", "$0\r\n\r\n", "!0\r\n\r\n", "=4\r\ntxt:\r\n", "-\r\n"} {
		b := decode(t, wire).Bytes()
		assert.NotNil(t, b, wire)
		assert.Empty(t, b, wire)
	}
	assert.Nil(t, decode(t, "$-1\r\n").Bytes())
	assert.False(t, decode(t, "*0\r\n").IsNull())
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

func TestElementsCanStop(t *testing.T) {
	v := decode(t, "%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n")
	seen := 0
	for range v.Elements() {
		if seen++; seen == 3 {
			break
		}
	}
	assert.Equal(t, 3, seen)
	seen = 0
	for range v.Pairs() {
		seen++
		break
	}
	assert.Equal(t, 1, seen)
}

// TestPairsOfArray is the map of RESP2.
func TestPairsOfArray(t *testing.T) {
	var got []string
	for key, value := range decode(t, "*3\r\n+a\r\n:1\r\n+odd\r\n").Pairs() {
		got = append(got, string(key.Bytes()))
		if string(key.Bytes()) == "odd" {
			assert.Equal(t, resp.Value{}, value)
		} else {
			assert.Equal(t, "Integer 1", describe(value))
		}
	}
	assert.Equal(t, []string{"a", "odd"}, got)
}

func TestAttributesOfAttributes(t *testing.T) {
	v := decode(t, "|0\r\n|1\r\n|1\r\n+x\r\n+y\r\n:1\r\n:2\r\n|2\r\n:3\r\n:4\r\n:5\r\n:6\r\n*1\r\n|1\r\n:7\r\n:8\r\n:9\r\n")
	want := []struct {
		length int
		raw    int
	}{{4, 48}, {2, 28}, {0, 4}}
	next := v
	for i, w := range want {
		attribute, ok := next.Attributes()
		require.True(t, ok, i)
		assert.Equal(t, resp.Attribute, attribute.Type())
		assert.Equal(t, w.length, attribute.Len(), i)
		assert.Len(t, attribute.Raw(), w.raw, i)
		next = attribute
	}
	_, ok := next.Attributes()
	assert.False(t, ok)
	for e := range v.Elements() {
		attribute, ok := e.Attributes()
		require.True(t, ok)
		assert.Equal(t, "Attribute {Integer 7: Integer 8}", describe(attribute))
	}
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

func TestTypeString(t *testing.T) {
	names := map[resp.Type]string{
		'+': "SimpleString", '-': "SimpleError", ':': "Integer", '$': "BulkString", '*': "Array",
		'_': "Null", '#': "Boolean", ',': "Double", '(': "BigNumber", '!': "BulkError",
		'=': "VerbatimString", '%': "Map", '|': "Attribute", '~': "Set", '>': "Push",
	}
	require.Len(t, names, 15)
	for c := range 256 {
		name, known := names[resp.Type(c)]
		if known {
			assert.Equal(t, name, resp.Type(c).String())
		} else {
			assert.Contains(t, resp.Type(c).String(), "Type('")
		}
	}
}
