package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/stretchr/testify/require"
)

// tokenOf returns the fingerprint of a lock's token.
func tokenOf(l redlock.Lock) string { return l.Token().Fingerprint() }

// Readers are listed with their times and owners, and a writer that waits for
// them is reported. A writer is a holder like any other.
func TestInspectShowsReaders(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{Prefix: "lock:"})
		other := m.Client(t, redlock.Config{Prefix: "lock:", Owner: "web-2"})
		short, err := c.RW("r").Read().TryAcquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		long, err := other.RW("r").Read().TryAcquire(t.Context(), 20*time.Second)
		require.NoError(t, err)
		time.Sleep(2 * ms)
		start := time.Now()
		found := inspected(t, c, "r")
		require.Equal(t, 2*ms, time.Since(start), "one round trip")
		require.Equal(t, StateShared, found.State)
		require.Equal(t, 3, found.Agree)
		require.Empty(t, found.Holder)
		require.False(t, found.WriterWaits)
		require.Len(t, found.Readers, 2)
		require.Equal(t, Participant{Holder: tokenOf(long), Owner: "web-2", Since: found.Readers[0].Since, Number: 1, TTL: found.Readers[0].TTL, Nodes: []int{0, 1, 2}}, found.Readers[0])
		require.InDelta(t, 20*time.Second, found.Readers[0].TTL, float64(10*ms))
		require.WithinDuration(t, start, found.Readers[0].Since, time.Second)
		require.Equal(t, tokenOf(short), found.Readers[1].Holder)
		require.InDelta(t, 10*time.Second, found.Readers[1].TTL, float64(10*ms))

		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := other.RW("r").Write().Acquire(ctx, time.Second)
			done <- err
		}()
		time.Sleep(50 * ms)
		require.True(t, inspected(t, c, "r").WriterWaits)
		m.Forget("lock:r:redlock:mark")
		m.Nodes[0].DB().Set("lock:r:redlock:mark", "x", time.Hour)
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
		time.Sleep(time.Second)
		require.False(t, inspected(t, c, "r").WriterWaits, "one node is no quorum")
		m.Forget("lock:r:redlock:mark")

		// One whose time is over is no reader, though it stays in the set.
		time.Sleep(9 * time.Second)
		found = inspected(t, c, "r")
		require.Len(t, found.Readers, 1)
		require.Equal(t, tokenOf(long), found.Readers[0].Holder)
		require.NoError(t, long.Release(t.Context()))
		time.Sleep(2 * ms)
		require.Equal(t, StateFree, inspected(t, c, "r").State)

		write, err := c.RW("r").Write().TryAcquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		found = inspected(t, c, "r")
		require.Equal(t, StateHeld, found.State)
		require.Equal(t, tokenOf(write), found.Holder)
		require.Empty(t, found.Readers)
	})
}

// endsIn is the end of a permit on a node, as its scripts write it.
func endsIn(left time.Duration) string {
	return strconv.FormatInt(time.Now().Add(left).UnixMilli(), 10)
}

// recordPermits writes how many permits there are on a node, as its script
// does.
func recordPermits(n *redistest.Node, resource string, ends time.Duration, numbers ...string) {
	n.DB().SetField(resource+":redlock:permits", "how many permits there are by each client, and when the last of its ends", strings.Join(numbers, "="+endsIn(ends)+" ")+"="+endsIn(ends))
}

// setPermit makes a permit a held one on a node.
func setPermit(n *redistest.Node, resource, number, value string, ends time.Duration) {
	n.DB().SetField(resource+":redlock:permits", number, endsIn(ends)+" "+value)
}

// How many permits there are, which are held, and how many are free.
func TestInspectShowsPermits(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{Owner: "web-1"})
		require.Zero(t, inspected(t, c, "s").Permits)
		s := c.Semaphore("s", 3)
		var locks []redlock.Lock
		for range 3 {
			lock, err := s.TryAcquire(t.Context(), 10*time.Second)
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		time.Sleep(2 * ms)
		found := inspected(t, c, "s")
		require.Equal(t, StateShared, found.State)
		require.Equal(t, 3, found.Permits)
		require.Zero(t, found.FreePermits)
		require.Len(t, found.PermitsHeld, 3)
		for i, p := range found.PermitsHeld {
			require.Equal(t, i, p.Number)
			require.Equal(t, "web-1", p.Owner)
			require.Equal(t, []int{0, 1, 2}, p.Nodes)
			require.InDelta(t, 10*time.Second, p.TTL, float64(20*ms))
			require.Equal(t, 3, found.Nodes[i].Permits)
		}
		first := slices.IndexFunc(found.PermitsHeld, func(p Participant) bool { return p.Holder == tokenOf(locks[0]) })
		freed := found.PermitsHeld[first].Number
		require.NoError(t, locks[0].Release(t.Context()))
		time.Sleep(2 * ms)
		require.Equal(t, 1, inspected(t, c, "s").FreePermits)

		// What is left of a failed attempt takes no permit, but for the node.
		number := strconv.Itoa(freed)
		setPermit(m.Nodes[1], "s", number, "another", 10*time.Second)
		found = inspected(t, c, "s")
		require.Equal(t, 1, found.FreePermits)
		require.Equal(t, []int{1}, found.PermitsHeld[freed].Nodes)
		setPermit(m.Nodes[2], "s", number, "a third", 10*time.Second)
		require.Zero(t, inspected(t, c, "s").FreePermits, "two nodes have it taken, though by two")

		// A client that names less: what is held beyond counts against it.
		redistest.Each(m.Nodes, func(n *redistest.Node) { n.DB().DeleteField("s:redlock:permits", number) })
		_, err := c.Semaphore("s", 2).TryAcquire(t.Context(), 10*time.Second)
		require.ErrorIs(t, err, redlock.ErrHeld)
		redistest.Each(m.Nodes[:2], func(n *redistest.Node) { recordPermits(n, "s", 10*time.Second, "2", "3") })
		found = inspected(t, c, "s")
		require.Equal(t, 2, found.Permits)
		require.Zero(t, found.FreePermits)
		require.Equal(t, 3, found.Nodes[2].Permits)
		require.Len(t, found.PermitsHeld, 2)
		for _, lock := range locks[1:] {
			require.NoError(t, lock.Release(t.Context()))
		}
		time.Sleep(2 * ms)
		found = inspected(t, c, "s")
		require.Equal(t, StateFree, found.State)
		require.Zero(t, found.Permits, "no node has a permit that would say")
	})
}

// The queue of a fair lock, in its order and without the holder.
func TestInspectShowsTheQueue(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var holders [3]redlock.Lock
		done := make(chan struct{})
		for i := range holders {
			go func() {
				holders[i], _ = c.Fair("f").Acquire(ctx, time.Minute)
				done <- struct{}{}
			}()
			time.Sleep(10 * ms)
		}
		<-done
		time.Sleep(5 * ms)
		found := inspected(t, c, "f")
		require.Equal(t, StateHeld, found.State)
		require.Equal(t, tokenOf(holders[0]), found.Holder)
		require.Len(t, found.Queue, 2)
		for i, p := range found.Queue {
			require.Equal(t, i+1, p.Number)
			require.WithinDuration(t, time.Now(), p.Since, time.Second, "it says since when it waits")
			require.Equal(t, []int{0, 1, 2}, p.Nodes)
			require.Greater(t, p.TTL, 250*ms)
			require.LessOrEqual(t, p.TTL, 500*ms)
			require.NotEqual(t, found.Holder, p.Holder)
		}
		second := found.Queue[1].Holder
		require.NoError(t, holders[0].Release(t.Context()))
		<-done
		time.Sleep(5 * ms)
		found = inspected(t, c, "f")
		require.Equal(t, tokenOf(holders[1]), found.Holder)
		require.Len(t, found.Queue, 1)
		require.Equal(t, second, found.Queue[0].Holder)
		require.Equal(t, 1, found.Queue[0].Number)
		stop()
		<-done
	})
}

// More than a reply carries takes a second round trip, and more than
// MaxParticipants are not listed (R32).
func TestInspectIsBounded_R32(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		fill := func(n int) {
			m.Forget("r:redlock:readers")
			for _, node := range m.Nodes {
				for i := range n {
					ends := time.Now().Add(time.Hour + time.Duration(i)*time.Second).UnixMilli()
					node.DB().Rank("r:redlock:readers", strings.Repeat("x", 90)+strconv.Itoa(100_000+i), float64(ends))
				}
				node.DB().Expire("r:redlock:readers", 24*time.Hour)
			}
		}
		for _, n := range []int{20, 21, 1024, 1025, 3000} {
			fill(n)
			start := time.Now()
			found := inspected(t, c, "r")
			require.Len(t, found.Readers, min(n, MaxParticipants))
			require.Equal(t, n > MaxParticipants, found.Cut)
			require.Equal(t, StateShared, found.State)
			require.InDelta(t, time.Hour+time.Duration(n-1)*time.Second, found.Readers[0].TTL, float64(time.Second))
			for i, p := range found.Readers {
				require.Equal(t, i+1, p.Number)
				require.Len(t, p.Nodes, 3)
			}
			trips := 2 * ms
			if n > 20 {
				trips *= 2
			}
			require.Equal(t, trips, time.Since(start))
		}
		for _, node := range c.Nodes() {
			require.Equal(t, 1, node.Connects)
		}
		for _, n := range m.Nodes[:2] {
			recordPermits(n, "s", time.Hour, "1024")
			for i := range 1024 {
				setPermit(n, "s", strconv.Itoa(i), "a", time.Hour)
			}
		}
		found := inspected(t, c, "s")
		require.Equal(t, 1024, found.Permits)
		require.Len(t, found.PermitsHeld, 1024)
		require.Zero(t, found.FreePermits)
		require.False(t, found.Cut)
	})
}

// A node that lists very many permits hides none that the others have.
func TestInspectOfALiarWithManyPermits_R16(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		for range 2 {
			_, err := c.Semaphore("s", 2).TryAcquire(t.Context(), time.Minute)
			require.NoError(t, err)
		}
		time.Sleep(2 * ms)
		digest, said := lua.Digest(lua.LookPermits), 0
		m.Nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			if args[0] != "EVALSHA" || args[1] != digest {
				return nil, false
			}
			reply := "*62\r\n:1024\r\n:1024\r\n"
			for range lookPage {
				said++
				reply += ":" + []string{"0", "9223372036854775807"}[said%2] + "\r\n:1\r\n$4\r\n" + strconv.Itoa(1000+said) + "\r\n"
			}
			return []byte(reply), true
		})
		found := inspected(t, c, "s")
		require.Greater(t, said, MaxParticipants)
		require.Equal(t, StateShared, found.State)
		require.Equal(t, 2, found.Agree)
		require.Equal(t, 2, found.Permits)
		require.Zero(t, found.FreePermits)
		require.Len(t, found.PermitsHeld, MaxParticipants+2)
	})
}

// The longest labels of readers and of those with a permit are shown.
func TestInspectShowsTheLongestLabels(t *testing.T) {
	owner, label := strings.Repeat("o", pure.LongestOwner), strings.Repeat("l", pure.LongestLabel)
	simulated(t, 3, func(t *testing.T, m *memory) {
		m.Ownerless()
		c := m.Client(t, redlock.Config{Owner: owner})
		for _, k := range []redlock.Locker{c.RW("r").Read(), c.Semaphore("s", 2)} {
			_, err := k.TryHold(t.Context(), redlock.HoldOptions{Label: label})
			require.NoError(t, err)
		}
		time.Sleep(2 * ms)
		for _, who := range append(inspected(t, c, "r").Readers, inspected(t, c, "s").PermitsHeld...) {
			require.Equal(t, []string{owner, label}, []string{who.Owner, who.Label})
		}
		require.Len(t, listed(t, c, ListOptions{}).Locks, 2)
	})
}

// A node that answers with a longer value than scripts show has not answered.
func TestInspectOfALiarWithLongValues_R16(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		digest, long := lua.Digest(lua.LookReaders), pure.LongestShown
		m.Nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			return fmt.Appendf(nil, "*5\r\n:0\r\n:1\r\n:0\r\n:1\r\n$%d\r\n%s\r\n", long, strings.Repeat("x", long)), args[0] == "EVALSHA" && args[1] == digest
		})
		require.NoError(t, inspected(t, c, "r").Nodes[0].Err)
		long++
		require.ErrorIs(t, inspected(t, c, "r").Nodes[0].Err, multiplex.ErrUnexpected)
	})
}

// What one node says of times breaks no JSON, and how much it says there is
// does not fill the others' lanes (R33).
func TestInspectOfALiarWithTimes_R33(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		digest := lua.Digest(lua.LookQueue)
		m.Nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			const reply = "*5\r\n:0\r\n:9223372036854775807\r\n:9223372036854775807\r\n:1\r\n$1\r\nx\r\n"
			return []byte(reply), args[0] == "EVALSHA" && args[1] == digest
		})
		found := inspected(t, c, "f")
		require.Len(t, found.Queue, 1)
		text, err := json.Marshal(found)
		require.NoError(t, err)
		require.Contains(t, string(text), `"queue"`)

		looks := make([]*look, lookBatch)
		for i := range looks {
			looks[i] = &look{Inspection: &Inspection{Resource: fmt.Sprint("f", i)}, wants: [3]bool{ofQueue: true}}
		}
		before, arrived := m.Nodes[1].Calls("EVALSHA"), make(map[time.Time]int)
		m.Nodes[1].Handle(func(int, []string) ([]byte, bool) {
			arrived[time.Now()]++
			return nil, false
		})
		for _, err := range inspectorOf(t.Context(), c).askFor(t.Context(), looks...) {
			require.NoError(t, err)
		}
		require.Greater(t, m.Nodes[1].Calls("EVALSHA")-before, 50*lookBatch, "all pages are asked for")
		for _, n := range arrived {
			require.LessOrEqual(t, n, 4*lookBatch, "at one time")
		}
	})
}

// A node that names a permit several times has it taken once: no node hides
// that a quorum has it free.
func TestInspectOfALiarWithOnePermit_R16(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		lock, err := c.Semaphore("s", 1).TryAcquire(t.Context(), time.Minute)
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		time.Sleep(2 * ms)
		digest := lua.Digest(lua.LookPermits)
		m.Nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			const reply = "*8\r\n:1\r\n:1\r\n:0\r\n:1\r\n$1\r\na\r\n:0\r\n:1\r\n$1\r\nb\r\n"
			return []byte(reply), args[0] == "EVALSHA" && args[1] == digest
		})
		found := inspected(t, c, "s")
		require.Len(t, found.PermitsHeld, 2)
		require.Equal(t, 1, found.FreePermits)
	})
}

// What a node says that no script says ends its connection, and no other's
// (R16). Numbers that no time is are cut.
func TestInspectOfALiar_R16(t *testing.T) {
	readers, key := lua.Digest(lua.LookReaders), "EVALSHA"
	for name, c := range map[string]struct{ to, reply string }{
		"a number":           {readers, ":1\r\n"},
		"a text":             {readers, "$1\r\nx\r\n"},
		"a null array":       {readers, "*-1\r\n"},
		"nothing":            {readers, "*0\r\n"},
		"one number":         {readers, "*1\r\n:1\r\n"},
		"a part":             {readers, "*3\r\n:0\r\n:1\r\n:0\r\n"},
		"a text as size":     {readers, "*2\r\n:0\r\n$1\r\n1\r\n"},
		"less than none":     {readers, "*2\r\n:0\r\n:-1\r\n"},
		"a time below none":  {readers, "*5\r\n:0\r\n:1\r\n:0\r\n:-2\r\n$1\r\nx\r\n"},
		"a number as value":  {readers, "*5\r\n:0\r\n:1\r\n:0\r\n:1\r\n:1\r\n"},
		"null as value":      {readers, "*5\r\n:0\r\n:1\r\n:0\r\n:1\r\n$-1\r\n"},
		"too many":           {readers, "*65\r\n:0\r\n:1\r\n" + strings.Repeat(":0\r\n:1\r\n$1\r\nx\r\n", 21)},
		"a long value":       {readers, "*5\r\n:0\r\n:1\r\n:0\r\n:1\r\n$5000\r\n" + strings.Repeat("x", 5000) + "\r\n"},
		"readers for ever":   {readers, "*5\r\n:0\r\n:9223372036854775807\r\n:9223372036854775807\r\n:9223372036854775807\r\n$1\r\nx\r\n"},
		"another's key":      {readers, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"},
		"no right to see it": {readers, "-NOPERM no permissions to run the 'zcard' command\r\n"},

		"a number for the key":    {key, ":1\r\n"},
		"a list for the key":      {key, "*0\r\n"},
		"a null array for it":     {key, "*-1\r\n"},
		"another digest":          {"SCRIPT", "$1\r\nx\r\n"},
		"a text for the time":     {"PTTL", "$1\r\n1\r\n"},
		"a time of minus three":   {"PTTL", ":-3\r\n"},
		"a time beyond all times": {"PTTL", ":9223372036854775807\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				client := m.Client(t, redlock.Config{})
				m.Nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
					of := args[0] == c.to && (slices.Contains(args, "r") || slices.Contains(args, lua.Look))
					return []byte(c.reply), of || args[0] == "EVALSHA" && args[1] == c.to
				})
				found := inspected(t, client, "r")
				switch name {
				case "readers for ever":
					require.Equal(t, StateFree, found.State)
					require.True(t, found.Cut)
					require.Len(t, found.Readers, 1)
					require.Positive(t, found.Readers[0].TTL)
				case "another's key":
					require.Equal(t, 3, found.Agree)
				case "no right to see it":
					var refusal *multiplex.RefusalError
					require.ErrorAs(t, found.Nodes[0].Err, &refusal)
					require.Equal(t, conn.ClassNoPerm, refusal.Class)
					require.Equal(t, 2, found.Agree)
				default:
					require.Error(t, found.Nodes[0].Err)
					require.Equal(t, StateFree, found.State)
					time.Sleep(5 * ms)
					require.Len(t, client.Nodes()[0].Counts.Deaths, 1)
					if c.to != readers {
						require.ErrorIs(t, found.Nodes[0].Err, multiplex.ErrUnexpected)
						require.Equal(t, map[string]uint64{"unexpected": 1}, client.Nodes()[0].Counts.Deaths)
					}
				}
				require.Nil(t, client.Nodes()[1].Counts.Deaths)
			})
		})
	}
}

// One node alone neither makes a writer wait nor says how many permits there
// are, nor for how long one of them is held (R33).
func TestInspectOfOneNodesWord_R33(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := m.Client(t, redlock.Config{})
		lock, err := c.Semaphore("s", 3).TryAcquire(t.Context(), 10*time.Second)
		require.NoError(t, err)
		number := strconv.Itoa(inspected(t, c, "s").PermitsHeld[0].Number)
		permits, _ := m.Nodes[0].DB().Fields("s:redlock:permits")
		_, value, ok := strings.Cut(permits[number], " ")
		require.True(t, ok)
		setPermit(m.Nodes[0], "s", number, value, time.Hour)
		require.LessOrEqual(t, inspected(t, c, "s").PermitsHeld[0].TTL, 10*time.Second)
		m.Nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			switch {
			case args[0] != "EVALSHA":
			case args[1] == lua.Digest(lua.LookPermits):
				return []byte("*2\r\n:1\r\n:1\r\n"), true
			case args[1] == lua.Digest(lua.LookReaders):
				return []byte("*2\r\n:7\r\n:0\r\n"), true
			}
			return nil, false
		})
		found := inspected(t, c, "s")
		require.Equal(t, 3, found.Permits)
		require.False(t, found.WriterWaits)
		require.NoError(t, lock.Release(t.Context()))
	})
}
