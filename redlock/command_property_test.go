package redlock

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redmux/redmux/resp"
)

// What is encoded is read back as the arguments that were meant, whatever the bytes of prefix, resource and token: none of
// them ends an argument or begins a command (R19). keyPart is where the key lies.
func TestCommandsAreReadBack_R19(t *testing.T) {
	anyText := func(from, to int) *rapid.Generator[string] {
		return rapid.Map(rapid.SliceOfN(rapid.Byte(), from, to), func(b []byte) string { return string(b) })
	}
	nasty := rapid.SampledFrom([]string{"\r\n", "$1\r\na\r\n", "*1\r\n$8\r\nFLUSHALL\r\n", "\x00", "-1"})
	rapid.Check(t, func(t *rapid.T) {
		c := &Client{}
		c.config.Prefix = rapid.OneOf(rapid.Just(""), nasty, anyText(0, 40)).Draw(t, "prefix")
		resource := rapid.OneOf(nasty, anyText(1, 120), anyText(900, 1024)).Draw(t, "resource")
		key := c.config.Prefix + resource
		var token Token
		copy(token[:], rapid.SliceOfN(rapid.Byte(), len(token), len(token)).Draw(t, "token"))
		ttl := time.Duration(rapid.Int64Range(1, 1<<40).Draw(t, "ttl")) * time.Millisecond
		milliseconds := strconv.FormatInt(ttl.Milliseconds(), 10)

		set := c.appendAcquire(nil, resource, &token, ttl)
		release := c.appendRelease(nil, resource, &token)
		extend := c.appendExtend(nil, resource, &token, ttl)
		secret := string(token[:])
		want := [][]string{
			{"SET", key, secret, "NX", "PX", milliseconds},
			{"EVALSHA", releaseScript.digest, "1", key, secret},
			{"EVALSHA", extendScript.digest, "1", key, secret, milliseconds},
		}
		part := c.keyPart(resource)
		for i := range releaseForms {
			native := releaseForms[i].Append(nil, release, part)
			words := map[string][]string{"DELEX": {"DELEX", key, "IFEQ", secret}, "DELIFEQ": {"DELIFEQ", key, secret}}
			require.Equal(t, [][]string{words[releaseForms[i].Name]}, readBack(t, native))
		}
		all := append(append(append([]byte(nil), set...), release...), extend...)
		require.Equal(t, want, readBack(t, all))
		encoded := string(resp.AppendBulkString(nil, key))
		require.Equal(t, encoded, string(release[part.From:part.To]))
		require.Equal(t, encoded, string(extend[part.From:part.To]))
	})
}

// readBack returns the arguments of each command.
func readBack(t *rapid.T, wire []byte) (commands [][]string) {
	r := resp.NewReader(resp.Limits{})
	for rest := wire; len(rest) > 0; {
		n := copy(r.Space(), rest)
		r.Commit(n)
		rest = rest[n:]
	}
	for {
		v, ok, err := r.Next()
		require.NoError(t, err)
		if !ok {
			require.Zero(t, r.Buffered())
			return commands
		}
		require.Equal(t, resp.Array, v.Type())
		var args []string
		for e := range v.Elements() {
			require.Equal(t, resp.BulkString, e.Type())
			args = append(args, string(e.Bytes()))
		}
		commands = append(commands, args)
	}
}
