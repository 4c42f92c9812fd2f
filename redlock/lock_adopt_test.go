package redlock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

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
	a, err := c.Adopt(lock.Resource(), lock.Token(), ttl, until)
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
				mine, err := m.client(t, Config{}).Adopt("r", lock.Token(), ttl, until(lock))
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
		_, err := c.Adopt("", Token{}, time.Second, soon)
		require.ErrorIs(t, err, ErrResource)
		_, err = c.Adopt(strings.Repeat("r", 1025), Token{}, time.Second, soon)
		require.ErrorIs(t, err, ErrResource)
		_, err = c.Adopt("r", Token{}, 0, soon)
		require.ErrorIs(t, err, ErrTTL)
		_, err = c.Adopt("r", Token{}, time.Hour, soon)
		require.ErrorIs(t, err, ErrTTL)
	})
}

// Another client's lock is neither extended nor released.
func TestAdoptOfAnothersLock(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		lock := mustAcquire(t, c, "r", 10*time.Second)
		wrong, err := c.Adopt("r", Token{1}, 10*time.Second, lock.Until())
		require.NoError(t, err)
		_, err = wrong.Extend(context.Background(), 10*time.Second)
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorIs(t, wrong.Release(context.Background()), ErrNotHeld)
		require.Equal(t, []int{0, 1, 2}, m.holders("r", lock.Token()))
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

// If a lock is adopted after the quarantine, everything that was forgotten has
// expired, and the node counts.
func TestExtensionOfAnAdoptedLockCountsAfterQuarantine_R23(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		first, second := trusting(t, m), exactClient(t, m, Config{MaxTTL: doubtMaxTTL})
		m.nodes[2].Restart()
		time.Sleep(150 * ms)
		lock := mustAcquire(t, first, "r", doubtMaxTTL)
		for range 4 {
			time.Sleep(4 * time.Second)
			mine := adopted(t, second, lock, doubtMaxTTL)
			var err error
			lock, err = mine.Extend(context.Background(), doubtMaxTTL)
			require.NoError(t, err)
		}
		m.link(0).Latency(time.Hour, ms) // for both clients; node 2 is needed now
		_, err := adopted(t, second, lock, doubtMaxTTL).Extend(context.Background(), doubtMaxTTL)
		require.NoError(t, err)
		m.recover()
	})
}
