package pure

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What follows a token are labels only if they can be printed, and otherwise no
// part of it is returned (R33).
func TestParseValue_R33(t *testing.T) {
	token := strings.Repeat("aZ0-_9xyz", 3)
	long := strings.Repeat("x", 64)
	for value, want := range map[string]Labels{
		token:                           {},
		token + ":web-1":                {Owner: "web-1"},
		token + ":a:b":                  {Owner: "a:b"},
		token + ":" + long:              {Owner: long},
		token + ":a b":                  {Owner: "a", Label: "b"},
		token + ": b":                   {Label: "b"},
		token + ":a b: c  d":            {Owner: "a", Label: "b: c  d"},
		token + ":" + long + " " + long: {Owner: long, Label: long},
	} {
		got, ok := ParseValue(value)
		assert.True(t, ok, "%q", value)
		assert.Equal(t, want, got.Labels, "%q", value)
		assert.Equal(t, token, got.Token)
		assert.Equal(t, want == Labels{}, got.Since.IsZero(), "%q: a token alone has no time", value)
		assert.LessOrEqual(t, len(value), LongestValue)
		if want != (Labels{}) {
			assert.Equal(t, value, token+":"+want.String())
		}
	}
	for _, value := range []string{
		token + ":", token + ": ", token + ":a ", token + ":a  b", token + ":a b ", token + ": ", token + ":" + long + "x",
		token + ":a " + long + "x", token + ":a b\n", token + ":a \x1b[31mred", token + ":a\tb", token + ":a é",
		token + ":a\n", token + ":\xc3\xa9", token + ":a\x7f", token + ":\x1b[31mred", token + ":\u202e", token + ":\xff",
		token + "/web-1", token[1:] + ":web-1", token + "a:web-1", token[1:] + "=:web-1", token[1:] + "\n:web-1",
		token[1:], token + " b", "", ":", ":a", strings.Repeat("f", 40), // look.lua's digest of a long value
		"the password of the program:hunter2",
	} {
		got, ok := ParseValue(value)
		assert.False(t, ok, "%q", value)
		assert.Zero(t, got, "%q", value)
	}
}

// What cannot be a label is refused, and not shown (R27).
func TestLabelsThatAreNone_R27(t *testing.T) {
	for text, want := range map[string][2]bool{
		"": {true, true}, "web-1": {true, true}, "a b": {false, true}, " a": {}, "a ": {}, "hunter2\n": {}, "hunter2é": {},
		strings.Repeat("x", 64): {true, true}, strings.Repeat("x", 65): {},
	} {
		for i, err := range []error{CheckOwner("the Owner", text), CheckLabel("the Label", text)} {
			assert.Equal(t, want[i], err == nil, "%q", text)
			if err != nil {
				assert.Regexp(t, `^the (Owner|Label) has \d+ bytes: they must be 1 to 64, printable ASCII with`, err.Error())
				assert.NotContains(t, err.Error(), "hunter")
			}
		}
	}
}

// A token that begins with a time is one, and says that time to the second.
func TestStamp(t *testing.T) {
	for _, at := range []time.Time{time.Unix(0, 0), time.Unix(1_764_255_989, 999_999_999), time.Unix(1<<36-1, 0)} {
		token := []byte(strings.Repeat("aZ0-_9xyz", 3))
		Stamp(token, at)
		assert.Equal(t, "xyzaZ0-_9xyzaZ0-_9xyz", string(token[6:]), "the rest is as it was")
		v, ok := ParseValue(string(token) + ":a")
		assert.True(t, ok)
		assert.Equal(t, at.Unix(), v.Since.Unix())
	}
	before := []byte(strings.Repeat("x", TokenText))
	Stamp(before, time.Unix(-5, 0))
	v, _ := ParseValue(string(before) + ":a")
	assert.Zero(t, v.Since.Unix(), "a clock that was never set")
}
