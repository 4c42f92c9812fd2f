package redlock

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

func TestTheZeroLockIsHeldByNobody(t *testing.T) {
	var zero Lock
	require.ErrorIs(t, zero.Release(context.Background()), ErrNotHeld)
	_, err := zero.Extend(context.Background(), time.Second)
	require.ErrorIs(t, err, ErrNotHeld)
	require.Zero(t, zero.Validity())
	require.True(t, zero.Until().IsZero())
	require.Empty(t, zero.Resource())
	require.Equal(t, Token{}, zero.Token())
}

// A lock is a value that knows what it is. An extension returns another one of
// the same lock (R10), and the first question after a pause says that it is
// over (R15).
func TestALockIsAValue_R10_R15(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Prefix: "lock:"})
		start := time.Now()
		old := mustAcquire(t, c, "r", 10*time.Second)
		until := old.Until()
		require.Equal(t, "r", old.Resource())
		require.Equal(t, start.Add(10*time.Second-102*ms), until)
		require.Equal(t, []int{0, 1, 2}, m.holders("lock:r", old.Token()), "the prefix stands before the key")
		time.Sleep(4 * time.Second)
		start = time.Now()
		longer, err := old.Extend(t.Context(), 20*time.Second)
		require.NoError(t, err)
		require.Equal(t, until, old.Until())
		require.Equal(t, start.Add(20*time.Second-202*ms), longer.Until())
		require.Equal(t, old.Token(), longer.Token())
		require.Equal(t, old.Resource(), longer.Resource())
		require.Equal(t, 20*time.Second-202*ms-2*ms, longer.Validity())
		time.Sleep(time.Minute)
		require.Negative(t, longer.Validity())
		for _, names := range [][]string{{"a"}, {"a", "b"}} {
			lock, err := c.All(names...).TryAcquire(t.Context(), time.Second)
			require.NoError(t, err)
			lock.Resources()[0] = "c" // of a copy: the release needs its own
			require.Equal(t, names, lock.Resources())
			require.NoError(t, lock.Release(t.Context()))
		}
	})
}

// A failed extension returns the lock unchanged: after
//
//	lock, err = lock.Extend(ctx, ttl)
//
// the lock can still be released, since the nodes may have it (R9, R10).
func TestAFailedExtensionReturnsTheLock_R9_R10(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", time.Second)
		was := lock
		lock, err := lock.Extend(context.Background(), -1)
		require.ErrorIs(t, err, ErrTTL)
		require.True(t, was == lock)
		m.nodes[0].Refuse("-OOM command not allowed")
		m.nodes[1].Refuse("-OOM command not allowed")
		lock, err = lock.Extend(context.Background(), time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.True(t, was == lock)
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		lock, err = lock.Extend(cancelled, time.Second)
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, was == lock)
		m.nodes[0].Refuse("")
		m.nodes[1].Refuse("")
		require.NoError(t, lock.Release(context.Background()))
		time.Sleep(10 * ms)
		require.Zero(t, m.keys())
		time.Sleep(time.Second)
		lock, err = lock.Extend(context.Background(), time.Second)
		require.ErrorIs(t, err, ErrNotHeld)
		require.True(t, was == lock)
	})
}

// A suspend stops the monotonic clock, a step changes the wall clock: a lock
// trusts neither alone (R4, R15). Simulated time has only one clock, so this
// test uses real time; it asks no node.
func TestALockThatOneClockSaysHasEnded(t *testing.T) {
	for name, until := range map[string]time.Time{
		"the wall":      redistest.Clocks(time.Now(), 10*time.Second, -time.Hour),
		"the monotonic": redistest.Clocks(time.Now(), -time.Hour, 10*time.Second),
	} {
		lock := encoding(Config{}).wanted(nil, "r", 0)
		lock.until = until
		require.LessOrEqual(t, lock.Validity(), -time.Hour, name)
		require.Greater(t, lock.Validity(), -time.Hour-time.Minute, name)
		_, err := lock.Extend(context.Background(), time.Minute)
		require.ErrorIs(t, err, ErrNotHeld, name)
	}
}

func TestParseToken_R3(t *testing.T) {
	var source wire.Tokens
	token := Token(source.Next())
	text := string(token[:])
	got, err := ParseToken(text)
	require.NoError(t, err)
	require.Equal(t, token[:], got[:])
	for _, bad := range []string{
		"", text[1:], text + "0", text + "=", text[:26] + "+", text[:26] + "/", " " + text[1:], text[:26] + "\n",
		text[:26] + "B", // encodes 162 bits, more than a token has
		strings.Repeat("ab", 20), fmt.Sprint(token),
	} {
		_, err := ParseToken(bad)
		require.ErrorIs(t, err, ErrToken, "%q", bad)
		if len(bad) > 10 {
			require.NotContains(t, err.Error(), bad[5:10], "R27")
		}
	}
}

// adopted returns a lock in another client of the same nodes, as in another
// process: with a parsed time.
func adopted(t *testing.T, c *Client, lock Lock, ttl time.Duration) Lock {
	t.Helper()
	until, err := time.Parse(time.RFC3339Nano, lock.Until().Format(time.RFC3339Nano))
	require.NoError(t, err)
	a, err := c.Adopt(lock.Resource(), lock.Token(), "", ttl, until)
	require.NoError(t, err)
	return a
}

func TestAdopt(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		lock := mustAcquire(t, m.client(t, Config{}), "r", 10*time.Second)
		c := m.client(t, Config{})
		mine := adopted(t, c, lock, 10*time.Second)
		require.Equal(t, lock.Validity(), mine.Validity())
		time.Sleep(5 * time.Second)
		longer, err := mine.Extend(context.Background(), 20*time.Second)
		require.NoError(t, err)
		require.Greater(t, longer.Validity(), 19*time.Second)
		require.Less(t, longer.Validity(), 20*time.Second)
		require.Equal(t, []int{0, 1, 2}, m.holders("r", lock.Token()))
		require.NoError(t, longer.Release(context.Background()))
		require.Zero(t, m.keys())
		require.ErrorIs(t, mine.Release(context.Background()), ErrNotHeld)

		lock = mustAcquire(t, c, "r", 10*time.Second)
		wrong, err := c.Adopt("r", Token{1}, "", 10*time.Second, lock.Until())
		require.NoError(t, err)
		_, err = wrong.Extend(context.Background(), 10*time.Second)
		require.ErrorIs(t, err, ErrNotHeld, "another's")
		require.ErrorIs(t, wrong.Release(context.Background()), ErrNotHeld)
		require.Equal(t, []int{0, 1, 2}, m.holders("r", lock.Token()))
	})
}

// A lock that is over, or of unknown validity, cannot be extended, even if the
// nodes still have the keys (R10, R15); it can be released.
func TestAdoptWithoutValidity_R10(t *testing.T) {
	const ttl = 10 * time.Second
	for name, until := range map[string]func(lock Lock) time.Time{
		"over":                    func(Lock) time.Time { return time.Now().Add(-ms) },
		"unknown":                 func(Lock) time.Time { return time.Time{} },
		"later than a TTL allows": func(lock Lock) time.Time { return lock.Until().Add(time.Second) },
		"in a hundred years":      func(Lock) time.Time { return time.Now().AddDate(100, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				lock := mustAcquire(t, m.client(t, Config{}), "r", ttl)
				mine, err := m.client(t, Config{}).Adopt("r", lock.Token(), "", ttl, until(lock))
				require.NoError(t, err)
				require.LessOrEqual(t, mine.Validity(), time.Duration(0))
				_, err = mine.Extend(context.Background(), ttl)
				require.ErrorIs(t, err, ErrNotHeld)
				require.Zero(t, extensions(m.nodes[0]), "no node is asked")
				require.NoError(t, mine.Release(context.Background()))
				require.Zero(t, m.keys())
			})
		})
	}
}

func TestAdoptRefusesWhatCannotBe(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{MaxTTL: time.Minute})
		soon := time.Now().Add(time.Second)
		_, err := c.Adopt("", Token{}, "", time.Second, soon)
		require.ErrorIs(t, err, ErrResource)
		_, err = c.Adopt(strings.Repeat("r", 1025), Token{}, "", time.Second, soon)
		require.ErrorIs(t, err, ErrResource)
		_, err = c.Adopt("r", Token{}, "", 0, soon)
		require.ErrorIs(t, err, ErrTTL)
		_, err = c.Adopt("r", Token{}, "", time.Hour, soon)
		require.ErrorIs(t, err, ErrTTL)
	})
}

// A node owes the release of an adopted lock although this client never sent it
// a SET (R8).
func TestReleaseOfAnAdoptedLockIsOwed_R8(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		lock := mustAcquire(t, m.client(t, Config{}), "r", 10*time.Second)
		mine := adopted(t, m.client(t, Config{}), lock, 10*time.Second)
		m.link(2).Refuse(true)
		m.nodes[2].DropConns()
		time.Sleep(20 * ms)
		require.NoError(t, mine.Release(context.Background()))
		require.Equal(t, []int{2}, m.holders("r", lock.Token()))
		m.link(2).Refuse(false)
		time.Sleep(3 * time.Second)
		require.Zero(t, m.keys(), "it was paid when the node came back")
	})
}

// A node that restarted empty may have forgotten a vote for a client whose
// attempt is still in progress. A key that was set there since proves nothing,
// and a client that adopts a lock does not know which keys these are: so it
// counts no key on a quarantined node (R10, R23). Like
// TestExtensionOfAKeySetInQuarantineDoesNotCount_R23, but another client
// extends.
func TestExtensionOfAnAdoptedLockDoesNotCountInQuarantine_R23(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		const maxTTL, short = 10 * time.Second, 300 * ms
		var slowly, other []string // separate links: one client is slow to two of the nodes, the other is cut off from one
		for i, n := range m.nodes {
			for _, kind := range []struct {
				name string
				urls *[]string
			}{{"slow", &slowly}, {"other", &other}} {
				addr := fmt.Sprintf("node%d.%s:6379", i, kind.name)
				n.Serve(m.network.Listen(addr))
				*kind.urls = append(*kind.urls, "redis://"+addr)
			}
		}
		first := exactClient(t, m, Config{MaxTTL: maxTTL})
		slow := m.client(t, Config{MaxTTL: maxTTL, Nodes: Nodes(slowly...), NodeTimeout: 2 * time.Second})
		second := exactClient(t, m, Config{MaxTTL: maxTTL, Nodes: Nodes(other...)})
		time.Sleep(maxTTL + time.Second) // until both trust all nodes
		m.network.At("node0.slow:6379").Latency(250*ms, ms)
		m.network.At("node1.slow:6379").Latency(500*ms, ms)

		voted := make(chan Lock, 1)
		go func() {
			lock, err := slow.TryAcquire(context.Background(), "r", maxTTL)
			require.NoError(t, err)
			voted <- lock
		}()
		time.Sleep(5 * ms)
		m.nodes[2].Restart() // it forgets its vote for the slow client
		time.Sleep(150 * ms)
		lock := mustAcquire(t, first, "r", short)
		require.Equal(t, []int{0, 1, 2}, m.holders("r", lock.Token()), "a quarantined node has the key, too")
		mine := adopted(t, second, lock, short)
		m.network.At("node1.other:6379").Latency(time.Hour, ms)
		time.Sleep(200 * ms)
		longer, err := mine.Extend(context.Background(), short)
		if err == nil {
			mine = longer
		}
		theirs := <-voted
		require.Positive(t, theirs.Validity(), "the vote from before the restart counts, and so does that of node 1, where the lock has ended")
		require.LessOrEqual(t, mine.Validity(), time.Duration(0), "two holders")
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, multiplex.ErrQuarantined)
	})
}

// A token has 160 random bits, whatever its encoding, and no other has the
// same, though many draw them at once (R3).
func TestTokensUseAllTheirBits_R3(t *testing.T) {
	const each, callers = 10_000, 4
	var source wire.Tokens
	var wg sync.WaitGroup
	var drawn [callers][]Token
	for i := range drawn {
		wg.Go(func() {
			for range each {
				drawn[i] = append(drawn[i], source.Next())
			}
		})
	}
	wg.Wait()
	var ones [160]int
	seen := map[Token]bool{{}: true}
	for _, token := range slices.Concat(drawn[:]...) {
		require.False(t, seen[token], "a token was given out twice")
		seen[token] = true
		random, err := base64.RawURLEncoding.Strict().DecodeString(string(token[:]))
		require.NoError(t, err)
		require.Len(t, random, len(ones)/8)
		for i := range ones {
			ones[i] += int(random[i/8] >> (i % 8) & 1)
		}
	}
	for i, count := range ones {
		require.InDelta(t, each*callers/2, count, each*callers/30, "bit %d", i) // 13 standard deviations
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
