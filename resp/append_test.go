package resp_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redmux/redmux/resp"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestAppend(t *testing.T) {
	type named string
	cases := []struct {
		got  []byte
		want string
	}{
		{resp.AppendCommand(nil), "*0\r\n"},
		{resp.AppendCommand(nil, "PING"), "*1\r\n$4\r\nPING\r\n"},
		{resp.AppendCommand(nil, "SET", "k", ""), "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n"},
		{resp.AppendArray(nil, 0), "*0\r\n"},
		{resp.AppendArray(nil, 9), "*9\r\n"},
		{resp.AppendArray(nil, 10), "*10\r\n"},
		{resp.AppendArray(nil, 1048576), "*1048576\r\n"},
		{resp.AppendMap(nil, 2), "%2\r\n"},
		{resp.AppendSet(nil, 3), "~3\r\n"},
		{resp.AppendPush(nil, 4), ">4\r\n"},
		{resp.AppendAttribute(nil, 5), "|5\r\n"},
		{resp.AppendBulkString(nil, "hello"), "$5\r\nhello\r\n"},
		{resp.AppendBulkString(nil, named("a\r\nb")), "$4\r\na\r\nb\r\n"},
		{resp.AppendBulkString(nil, []byte(nil)), "$0\r\n\r\n"},
		{resp.AppendBulkError(nil, "ERR a\nb"), "!7\r\nERR a\nb\r\n"},
		{resp.AppendVerbatimString(nil, "txt", "Some string"), "=15\r\ntxt:Some string\r\n"},
		{resp.AppendVerbatimString(nil, "mkd", []byte{}), "=4\r\nmkd:\r\n"},
		{resp.AppendSimpleString(nil, "OK"), "+OK\r\n"},
		{resp.AppendSimpleError(nil, []byte("ERR x")), "-ERR x\r\n"},
		{resp.AppendInteger(nil, 0), ":0\r\n"},
		{resp.AppendInteger(nil, math.MinInt64), ":-9223372036854775808\r\n"},
		{resp.AppendInteger(nil, math.MaxInt64), ":9223372036854775807\r\n"},
		{resp.AppendBoolean(nil, true), "#t\r\n"},
		{resp.AppendBoolean(nil, false), "#f\r\n"},
		{resp.AppendDouble(nil, 1.5), ",1.5\r\n"},
		{resp.AppendDouble(nil, 1e21), ",1e+21\r\n"},
		{resp.AppendDouble(nil, math.Copysign(0, -1)), ",-0\r\n"},
		{resp.AppendDouble(nil, math.Inf(1)), ",inf\r\n"},
		{resp.AppendDouble(nil, math.Inf(-1)), ",-inf\r\n"},
		{resp.AppendDouble(nil, math.NaN()), ",nan\r\n"},
		{resp.AppendBigNumber(nil, "-12345678901234567890"), "(-12345678901234567890\r\n"},
		{resp.AppendNull(nil), "_\r\n"},
		{resp.AppendNullBulkString(nil), "$-1\r\n"},
		{resp.AppendNullArray(nil), "*-1\r\n"},
		{resp.AppendNull([]byte("+before\r\n")), "+before\r\n_\r\n"},
	}
	for _, c := range cases {
		assert.Equal(t, c.want, string(c.got))
	}
}

// TestNothingInjects is R19: hostile arguments are decoded as they were
// encoded, as the same number of arguments, with nothing after them.
func TestNothingInjects(t *testing.T) {
	args := []string{
		"SET", "", "\r\n", "a\r\n*1\r\n$8\r\nFLUSHALL\r\n", "\x00", "$-1\r\n", "*", "\xff\xfe",
		strings.Repeat("\r\n", 1000),
	}
	v := decode(t, string(resp.AppendCommand(nil, args...)))
	var got []string
	for e := range v.Elements() {
		assert.Equal(t, resp.BulkString, e.Type())
		got = append(got, string(e.Bytes()))
	}
	assert.Equal(t, args, got)
}

// TestLinesStayLines is the same for the types without a length.
func TestLinesStayLines(t *testing.T) {
	assert.Equal(t, "+a  +b\r\n", string(resp.AppendSimpleString(nil, "a\r\n+b")))
	assert.Equal(t, "-ERR x   :1\r\n", string(resp.AppendSimpleError(nil, []byte("ERR x \n\r:1"))))
	kept := []byte("a\nb")
	resp.AppendSimpleString([]byte("\r\n"), kept)
	assert.Equal(t, "a\nb", string(kept), "the caller's bytes are left alone")
	assert.Equal(t, "\r\n+x\r\n", string(resp.AppendSimpleString([]byte("\r\n"), "x")))
}

func TestAppendPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"resp: negative length":                                func() { resp.AppendArray(nil, -1) },
		"resp: format of a verbatim string is not three bytes": func() { resp.AppendVerbatimString(nil, "text", "") },
		"resp: big number is not an integer":                   func() { resp.AppendBigNumber(nil, "1\r\n+OK") },
	} {
		assert.PanicsWithValue(t, name, f)
	}
}

// TestErrorPrefix takes the first word if it is one, of the value and of its
// copy.
func TestErrorPrefix(t *testing.T) {
	word := strings.Repeat("A", 32)
	cases := []struct{ message, prefix string }{
		{"NOSCRIPT No matching script.", "NOSCRIPT"},
		{"ERR unknown command", "ERR"},
		{"NOAUTH", "NOAUTH"},
		{"MOVED 3999 127.0.0.1:6381", "MOVED"},
		{"CROSS_SLOT2 x", "CROSS_SLOT2"},
		{word + " x", word},
		{word, word},
		{word + "A x", "ERR"},
		{word + "A", "ERR"},
		{"", "ERR"},
		{" ", "ERR"},
		{"max number of clients reached", "ERR"},
		{"Err x", "ERR"},
		{"NOSCRIPT: x", "ERR"},
		{"NOSCRIPTx", "ERR"},
		{"NO-AUTH x", "ERR"},
		{"NOAUTH\tx", "ERR"},
		{"\xff\x00", "ERR"},
	}
	for _, c := range cases {
		assert.Equal(t, c.prefix, (&resp.Error{Message: c.message}).Prefix(), c.message)
		for _, wire := range [][]byte{
			resp.AppendSimpleError(nil, c.message),
			resp.AppendBulkError(nil, c.message),
		} {
			v := decode(t, string(wire))
			assert.Equal(t, c.prefix, string(v.ErrorPrefix()), "%q", wire)
			err, ok := v.AsError()
			assert.True(t, ok)
			assert.Equal(t, &resp.Error{Message: c.message}, err, "%q", wire)
		}
	}
}

// An error outlives the view that it came from.
func TestAsErrorIsACopy(t *testing.T) {
	r := resp.NewReader(resp.Limits{})
	push(r, []byte("-LOADING first\r\n"))
	v, _, _ := r.Next()
	err, _ := v.AsError()
	push(r, []byte("-READONLY other\r\n"))
	r.Next()
	assert.EqualError(t, err, "resp: server error: LOADING first")
}

// TestErrorTextKeepsArgumentsOut is R27: servers repeat arguments in errors.
func TestErrorTextKeepsArgumentsOut(t *testing.T) {
	err := &resp.Error{Message: "ERR unknown command 'DELEX', with args beginning with: 'invoice:7' 'IFEQ' 'secret' "}
	assert.EqualError(t, err, "resp: server error: ERR unknown command 'DELEX'")
	assert.Contains(t, err.Message, "secret")
}
