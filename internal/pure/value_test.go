package pure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What follows a token is an owner only if it can be printed, and otherwise no
// part of it is returned (R33).
func TestSplitValue_R33(t *testing.T) {
	token := strings.Repeat("aZ0-_9xyz", 3)
	for value, owner := range map[string]string{
		token + ":web-1":                      "web-1",
		token + ":a:b":                        "a:b",
		token + ":" + strings.Repeat("x", 64): strings.Repeat("x", 64),
		token:                                 "",
		token + ":":                           "",
		token + ":" + strings.Repeat("x", 65): "",
		token + ":a b":                        "",
		token + ":a\n":                        "",
		token + ":\xc3\xa9":                   "",
		token + ":a\x7f":                      "",
		token + ":\x1b[31mred":                "",
		token + ":\u202e":                     "",
		token + ":\xff":                       "",
		token + "/web-1":                      "",
		token[1:] + ":web-1":                  "",
		token + "a:web-1":                     "",
		token[1:] + "=:web-1":                 "",
		token[1:] + "\n:web-1":                "",
		"":                                    "",
		strings.Repeat("f", 40):               "", // look.lua's digest of a long value
		"the password of the program:hunter2": "",
	} {
		got, label, ok := SplitValue(value)
		assert.Equal(t, owner != "", ok, "%q", value)
		assert.Equal(t, owner, label, "%q", value)
		if ok {
			assert.Equal(t, token, got)
		}
	}
}
