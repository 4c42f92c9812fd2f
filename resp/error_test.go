package resp_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redmux/redmux/resp"
)

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
