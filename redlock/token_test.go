package redlock

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

func TestTokensAreUnique(t *testing.T) { // R3
	const each, callers = 25_000, 4
	var source wire.Tokens
	drawn := make([][]Token, callers)
	var wg sync.WaitGroup
	for i := range drawn {
		wg.Go(func() {
			for range each {
				drawn[i] = append(drawn[i], source.Next())
			}
		})
	}
	wg.Wait()
	seen := make(map[Token]bool, each*callers)
	for _, all := range drawn {
		for _, token := range all {
			require.False(t, seen[token], "a token was given out twice")
			seen[token] = true
		}
	}
	require.NotContains(t, seen, Token{})
}

// A token has 160 random bits, whatever its encoding (R3).
func TestTokensUseAllTheirBits_R3(t *testing.T) {
	var source wire.Tokens
	var ones [160]int
	const n = 4000
	for range n {
		token := source.Next()
		random, err := base64.RawURLEncoding.Strict().DecodeString(string(token[:]))
		require.NoError(t, err)
		require.Len(t, random, len(ones)/8)
		for i := range ones {
			ones[i] += int(random[i/8] >> (i % 8) & 1)
		}
	}
	for i, count := range ones {
		require.InDelta(t, n/2, count, n/10, "bit %d", i) // 12 standard deviations
	}
}

// Clients that decode every value as UTF-8 can read the value of a lock's key,
// and so can a person with redis-cli.
func TestTokensArePrintable_R3(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.ownerless()
		c := m.client(t, Config{})
		h := mustHold(t, c, "held", HoldOptions{Heal: true})
		for range 100 {
			mustAcquire(t, c, "r", time.Second)
			value, _ := m.nodes[0].Get("r")
			require.Regexp(t, "^[A-Za-z0-9_-]{27}$", value)
			token, err := ParseToken(value)
			require.NoError(t, err)
			require.Equal(t, value, Token(token).Reveal())
			time.Sleep(time.Second)
		}
		require.NoError(t, h.Release(t.Context()))
		time.Sleep(10 * ms)
		require.Zero(t, m.keys(), "renewals and releases send the same characters")
	})
}

// A value with a secret shows it with no format verb, on its own or inside
// another value (R27).
func TestSecretsAreNotPrinted(t *testing.T) {
	var source wire.Tokens
	token := Token(source.Next())
	config := Config{
		Nodes:    Nodes("redis://user:hunter2@a:6379", "redis://b", "redis://%zz:hunter2@c"),
		Username: "alice", Password: "hunter2",
	}
	client := &Client{config: &config}
	client.kinds = client.newKinds()
	lock := client.wanted(client.kinds.Plain(), "customer-4711", time.Second)
	lock.grant.Token, lock.until = wire.Veil(token), time.Now()
	for _, v := range []any{
		token, &token, []Token{token}, map[string]Token{"a": token}, struct{ Token Token }{token},
		lock, &lock, []Lock{lock}, [1]any{lock}, struct{ Lock Lock }{lock}, fmt.Errorf("%v", lock),
		client, config, &config, config.Nodes, config.Nodes[0], struct{ Client *Client }{client},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%c", "%U", "%o", "%b", "%e", "%t", "%30v", "%.3d"} {
			requireSecret(t, fmt.Sprintf(verb, v), token, verb, v)
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("text", "value", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("json", "value", v)
		requireSecret(t, log.String(), token, "slog", v)
	}
	for _, v := range []any{token, lock, struct{ Token Token }{token}, []Lock{lock}, map[string]Token{"a": token}} {
		text, err := json.Marshal(v)
		require.ErrorContains(t, err, "is not marshalled, since it", "%T", v)
		requireSecret(t, string(text)+err.Error(), token, "json", v)
	}

	require.Equal(t, "(token)", fmt.Sprintf("%+v", token))
	require.Equal(t, "(no lock)", fmt.Sprint(Lock{}))
	require.Equal(t, "(nodes a:6379 b:6379 (bad URL))", fmt.Sprint(config))
	require.Equal(t, "(client of 3 nodes)", fmt.Sprint(client))
	require.Contains(t, fmt.Sprint(lock), "(lock until ")
}

func requireSecret(t *testing.T, text string, token Token, how string, v any) {
	t.Helper()
	for _, secret := range []string{
		string(token[:]), string(token[:4]), hex.EncodeToString(token[:4]), fmt.Sprintf("%X", token[:4]),
		fmt.Sprintf("%d %d %d", token[0], token[1], token[2]), fmt.Sprintf("%d,%d,%d", token[0], token[1], token[2]),
		fmt.Sprintf("0x%x, 0x%x, 0x%x", token[0], token[1], token[2]),
		"hunter2", "68756e746572", "customer-4711",
	} {
		require.NotContains(t, text, secret, "%s of %T", how, v)
	}
}
