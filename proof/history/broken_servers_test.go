package history_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/proof/history"
	"github.com/redmux/redmux/redlock"
)

// The checkers find on real servers what they are made for: with a lock that
// lacks one of its parts, both checkers see two holders; with the complete
// lock, neither does.
func TestHistoriesOfBrokenLocks_OnRealServers(t *testing.T) {
	redistest.Long(t)
	redistest.NoLeaks(t)
	servers := redistest.Servers(t, 3)
	whole := broken{servers: servers, quorum: 2, nx: true, compares: true, honest: true}
	for _, c := range []struct {
		name   string
		change func(*broken)
		found  bool
	}{
		{"all its parts", func(*broken) {}, false},
		{"no quorum", func(b *broken) { b.quorum = 1 }, true},
		{"no NX", func(b *broken) { b.nx = false }, true},
		{"a plain DEL", func(b *broken) { b.compares = false }, true},
		{"a validity that is longer than the key's life", func(b *broken) { b.honest = false }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := whole
			c.change(&b)
			begun, again := time.Now(), 0
			x, v := b.compete(t)
			// A missing part shows only if clients meet at the wrong moment,
			// which on a busy machine may take several runs.
			for ; again < 20 && !b.seen(c.found, x, v); again++ {
				x, v = b.compete(t)
			}
			t.Logf("seen after %v, in run %d", time.Since(begun).Round(time.Millisecond), again+1)
			require.Greater(t, x.Grants, 5)
			if b.honest {
				require.Positive(t, x.Overdue, "or a plain DEL does no harm")
			}
			require.Zero(t, v.Undecided)
			require.Equal(t, c.found, len(x.Violations()) > 0)
			require.Equal(t, c.found, v.Violated > 0)
			for _, one := range x.Violations() {
				require.Equal(t, history.TwoHolders, one.Fault)
				require.Positive(t, one.Overlap)
			}
		})
	}
}

// broken is a lock from which parts can be removed.
type broken struct {
	servers  []*redistest.Server
	quorum   int
	nx       bool // SET … NX
	compares bool // compares before it deletes
	honest   bool // tells the true end of validity
}

// seen reports whether a run had enough grants, late releases and, if must is
// set, a violation. A violation without must ends the run too.
func (b broken) seen(must bool, x *history.Exclusion, v history.Verdict) bool {
	happened := x.Grants > 5 && (x.Overdue > 0 || !b.honest)
	found := len(x.Violations()) > 0 || v.Violated > 0
	if must {
		return happened && found
	}
	return happened || found
}

const brokenTTL = 60 * time.Millisecond

// compete lets clients compete for one resource for a while, on empty servers,
// and checks their history.
func (b broken) compete(t *testing.T) (*history.Exclusion, history.Verdict) {
	for _, s := range b.servers {
		_, err := s.Do("FLUSHALL")
		require.NoError(t, err)
	}
	var file bytes.Buffer
	w := history.NewWriter(&file, true)
	var stop atomic.Bool
	var tokens atomic.Int64
	defer time.AfterFunc(1500*time.Millisecond, func() { stop.Store(true) }).Stop()
	var wg sync.WaitGroup
	for client := range 4 {
		random := rand.New(rand.NewPCG(rand.Uint64(), 0))
		wg.Go(func() {
			for attempt := uint64(1); !stop.Load(); attempt++ {
				token := strconv.FormatInt(tokens.Add(1), 10)
				w.Note(history.Start, client, "k", attempt, nil, time.Time{})
				until, ok := b.acquire(token, random)
				if !ok {
					w.Note(history.Held, client, "k", attempt, nil, time.Time{})
					time.Sleep(upToMillisecond(random, 3))
					continue
				}
				w.Note(history.Grant, client, "k", attempt, []byte(token), until)
				time.Sleep(upToMillisecond(random, 90))
				w.Note(history.Release, client, "k", attempt, []byte(token), until)
				b.release(token)
			}
		})
	}
	wg.Wait()
	require.NoError(t, w.Close())
	var x history.Exclusion
	var l history.Locks
	for e, err := range history.Merge(history.DefaultDisorder, history.Read(&file)) {
		require.NoError(t, err)
		x.Add(e)
		l.Add(e)
	}
	l.Patience = time.Minute
	v := l.Finish()
	t.Logf("%d grants, %d overdue, %d violations, %d of %d windows", x.Grants, x.Overdue, len(x.Violations()), v.Violated, v.Windows)
	return &x, v
}

func upToMillisecond(r *rand.Rand, most int64) time.Duration {
	return time.Duration(r.Int64N(most * int64(time.Millisecond)))
}

// acquire asks the servers in random order, and no more of them than necessary.
func (b broken) acquire(token string, random *rand.Rand) (until time.Time, ok bool) {
	start := time.Now()
	granted := 0
	for _, i := range random.Perm(len(b.servers)) {
		command := []string{"SET", "k", token, "PX", fmt.Sprint(brokenTTL.Milliseconds())}
		if b.nx {
			command = append(command, "NX")
		}
		if v, err := b.servers[i].Do(command...); err == nil && v == "OK" {
			granted++
		}
		if granted == b.quorum {
			break
		}
	}
	until = start.Add(brokenTTL - brokenTTL/100 - 2*time.Millisecond)
	if !b.honest {
		until = until.Add(brokenTTL)
	}
	if granted < b.quorum || !time.Now().Before(until) {
		b.release(token)
		return time.Time{}, false
	}
	return until, true
}

func (b broken) release(token string) {
	command := []string{"DEL", "k"}
	if b.compares {
		command = []string{"EVAL", "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0", "1", "k", token}
	}
	for _, s := range b.servers {
		_, _ = s.Do(command...)
	}
}

// The same for locks of other forms, by clients that are wrong themselves: a
// reader that believes that it writes, one that has another number of permits
// than it says, and one that does not queue. With clients that are right,
// nothing is found.
func TestHistoriesOfBrokenLockers_OnRealServers(t *testing.T) {
	redistest.Long(t)
	redistest.NoLeaks(t)
	servers := redistest.Servers(t, 3)
	for _, c := range []struct {
		resource string
		fault    history.Fault
	}{{"rw", history.TwoHolders}, {"s", history.TooManyPermits}, {"f", history.Overtook}} {
		for _, wrong := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, wrong: %v", c.resource, wrong), func(t *testing.T) {
				found := func(x *history.Exclusion, v history.Verdict) bool {
					return len(x.Violations()) > 0 && (v.Violated > 0 || !wrong)
				}
				x, v := callLockers(t, servers, c.resource, wrong)
				for again := 0; again < 20 && (x.Grants <= 5 || found(x, v) != wrong); again++ {
					x, v = callLockers(t, servers, c.resource, wrong)
					require.True(t, wrong || !found(x, v), "%v", x.Violations())
				}
				require.Greater(t, x.Grants, 5)
				require.Zero(t, v.Undecided)
				require.Equal(t, wrong, found(x, v), "%v", v.Findings)
				for _, one := range x.Violations() {
					require.True(t, wrong, one)
					require.Equal(t, c.fault, one.Fault)
				}
			})
		}
	}
}

// callLockers lets clients compete for one resource for a while, and checks
// their history.
func callLockers(t *testing.T, servers []*redistest.Server, resource string, wrong bool) (*history.Exclusion, history.Verdict) {
	var file bytes.Buffer
	w := history.NewWriter(&file, true)
	client, err := redlock.New(t.Context(), redlock.Config{
		Nodes: redlock.Nodes(redistest.URLs(servers)...), Forgetful: true,
		Tracer: &redlock.Tracer{AttemptDone: func(ctx context.Context, a redlock.CallInfo) { noteQueued(ctx, a, len(servers)) }},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 8 {
		c := &caller{w: w, client: client, id: i, random: rand.New(rand.NewPCG(rand.Uint64(), 0)), wrong: wrong}
		wg.Go(func() {
			for ctx.Err() == nil {
				c.resource = resource
				c.attempt += 2 // one for an upgrade or a downgrade
				c.locker(ctx)
			}
		})
	}
	wg.Wait()
	require.NoError(t, client.Close(context.Background()))
	require.NoError(t, w.Close())
	var x history.Exclusion
	l := history.Locks{Patience: time.Minute}
	for e, err := range history.Merge(history.DefaultDisorder, history.Read(&file)) {
		require.NoError(t, err)
		x.Add(e)
		l.Add(e)
	}
	v := l.Finish()
	t.Logf("%d grants, %d queued, %d violations, %d of %d windows", x.Grants, x.Queued, len(x.Violations()), v.Violated, v.Windows)
	return &x, v
}
