package redlock

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// Encoded commands are read back as their arguments, whatever the bytes of
// prefix, resource and token: no byte ends an argument or starts a command
// (R19). The encoders return the place of the key.
func TestCommandsAreReadBack_R19(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		prefix := [...]string{"", nasty(rng), anyText(rng, 0, 40)}[rng.IntN(3)]
		resource := [...]string{nasty(rng), anyText(rng, 1, 120), anyText(rng, 900, 1024)}[rng.IntN(3)]
		key := prefix + resource
		c := encoding(Config{Prefix: prefix})
		token := wire.Veil(Token([]byte(anyText(rng, len(Token{}), len(Token{})))))
		ttl := time.Duration(1+rng.Int64N(1<<40)) * time.Millisecond
		milliseconds := strconv.FormatInt(ttl.Milliseconds(), 10)

		set := c.kinds.Set(nil, resource, &token, ttl)
		release := c.kinds.Encoder.Release(nil, resource, &token)
		extend := c.kinds.Encoder.Extend(nil, resource, &token, ttl, 2*ttl)
		secret := secretOf(token)
		want := [][]string{
			{"SET", key, secret, "NX", "PX", milliseconds},
			{"EVALSHA", wire.Release.Digest, "1", key, secret},
			{"EVALSHA", wire.Extend.Digest, "1", key, secret, milliseconds, strconv.FormatInt(2*ttl.Milliseconds(), 10)},
		}
		for i := range kind.ReleaseForms {
			native := kind.ReleaseForms[i].Append(nil, release)
			words := map[string][]string{"DELEX": {"DELEX", key, "IFEQ", secret}, "DELIFEQ": {"DELIFEQ", key, secret}}
			require.Equal(t, [][]string{words[kind.ReleaseForms[i].Name]}, readBack(t, native))
		}
		all := append(append(append([]byte(nil), set.Bytes...), release.Bytes...), extend.Bytes...)
		require.Equal(t, want, readBack(t, all))
		encoded := string(resp.AppendBulkString(nil, key))
		require.Equal(t, encoded, string(release.Bytes[release.Key.From:release.Key.To]))
		require.Equal(t, encoded, string(extend.Bytes[extend.Key.From:extend.Key.To]))
	}
}

// anyText returns between from and to random bytes.
func anyText(rng *rand.Rand, from, to int) string {
	b := make([]byte, from+rng.IntN(to-from+1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

// nasty returns a text that would end an argument or start a command if it were
// not sent as a bulk string.
func nasty(rng *rand.Rand) string {
	all := []string{"\r\n", "$1\r\na\r\n", "*1\r\n$8\r\nFLUSHALL\r\n", "\x00", "-1"}
	return all[rng.IntN(len(all))]
}

// readBack returns the arguments of each command.
func readBack(t *testing.T, wire []byte) (commands [][]string) {
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
