package multiplex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	releaseManySource = "release many"
	// odd is the value of a key that the scripts cannot read, like a list.
	odd = "no string"
)

// mergingKind is releaseKind, merged: the same script for several keys.
var mergingKind = &ReleaseKind{Kind: scripted, Merger: mergerOf(releaseManySource)}

func mergerOf(source string) *Merger {
	return &Merger{
		Kind: Kind{Judge: judgeOneOfMany, Script: true},
		AppendHead: func(dst []byte, n int) []byte {
			dst = resp.AppendArray(dst, 3+2*n)
			dst = resp.AppendBulkString(dst, "EVALSHA")
			dst = resp.AppendBulkString(dst, redistest.SHA1(source))
			return resp.AppendBulkString(dst, fmt.Sprint(n))
		},
	}
}

func judgeOneOfMany(v resp.Value) Vote {
	if n, ok := v.Int64(); ok && n == -1 {
		return Failed
	}
	return judgeInteger(v)
}

func releaseKey(key, token string) Part {
	to := len(releaseCommand(key, token)) - len(resp.AppendBulkString(nil, token))
	return Part{From: to - len(resp.AppendBulkString(nil, key)), To: to}
}

func encodedRelease(key, token string) Encoded {
	return Encoded{releaseCommand(key, token), releaseKey(key, token)}
}

// raw is a command whose key is not known.
func raw(command []byte) Encoded { return Encoded{Bytes: command} }

// undoing returns a Claim's Undo.
func undoing(release Encoded) func(dst []byte) Encoded {
	return func(dst []byte) Encoded { return Encoded{append(dst, release.Bytes...), release.Key} }
}

// merging makes cluster.release merge, or not.
func merging(on bool) func(*cluster) {
	return func(c *cluster) {
		if on {
			c.merges = true
			c.teachMerged(releaseManySource)
		}
	}
}

// teachMerged registers a script that releases many keys, and makes the one
// that releases a single key recognize odd ones.
func (c *cluster) teachMerged(source string) {
	load := resp.AppendCommand(nil, "SCRIPT", "LOAD", source)
	c.config.Cure = append(c.config.Cure, load)
	for i, n := range c.nodes {
		steps := c.config.Nodes[i].Prelude
		c.config.Nodes[i].Prelude = append(steps[:len(steps):len(steps)], conn.Step{Command: load})
		n.Script(source, releaseMany)
		n.Script(releaseSource, func(keys, args []string, db *redistest.DB) any {
			if result := releaseMany(keys, args, db).([]any)[0]; result != -1 {
				return result
			}
			return errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
		})
	}
}

func releaseMany(keys, args []string, db *redistest.DB) any {
	results := make([]any, len(keys))
	for i, key := range keys {
		results[i] = 0
		if value, _ := db.Get(key); value == odd {
			results[i] = -1
		} else if db.DeleteIf(key, args[i]) {
			results[i] = 1
		}
	}
	return results
}

// inMergingBubble is inBubble with releases that are merged.
func inMergingBubble(t *testing.T, n int, test func(t *testing.T, c *cluster), tweaks ...func(*cluster)) {
	t.Helper()
	inBubble(t, n, test, append(tweaks, merging(true))...)
}

// locks are keys k0, k1, … claimed with the token "t".
type locks struct {
	*cluster
	receipts []Receipt
}

func (c *cluster) lock(n int) *locks {
	c.t.Helper()
	l := &locks{cluster: c}
	for i := range n {
		l.receipts = append(l.receipts, c.mustClaim(fmt.Sprint("k", i)))
	}
	time.Sleep(trip) // the answers of all
	return l
}

// free releases one of the locks.
func (l *locks) free(ctx context.Context, i int) error {
	return l.release(ctx, fmt.Sprint("k", i), "t", long, l.receipts[i])
}

// gather lets n callers act one after the other while the test has the
// flusher's role, so that their releases gather. The returned function writes
// them, waits for the callers and returns each one's error.
func (c *cluster) gather(n int, do func(i int) error) (flush func() []error) {
	c.t.Helper()
	c.group.mu.Lock()
	require.True(c.t, c.group.takeFlushLocked())
	c.group.mu.Unlock()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
		synctest.Wait()
	}
	return func() []error {
		c.group.flush()
		wg.Wait()
		return errs
	}
}

// freeAll releases all of the locks at once.
func (l *locks) freeAll() []error {
	return l.gather(len(l.receipts), func(i int) error { return l.free(background, i) })()
}

// releases returns the lines of a node's story about releases.
func releases(n *redistest.Node) []string {
	var lines []string
	for _, line := range story(n) {
		if strings.Contains(line, " release ") || strings.Contains(line, " merged ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// conserved requires that every round is back in the pool, once, and carries
// none (R20). It waits for that: a last command may wait for a silent node.
func (c *cluster) conserved() {
	c.t.Helper()
	g := c.group
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log.collect()
	g.trimLocked()
	require.Zero(c.t, g.log.live)
	seen := make(map[*round]bool)
	for carrier, list := range map[bool]*round{false: g.log.free, true: g.log.carriers} {
		for r := list; r != nil; r = r.next {
			require.False(c.t, seen[r], "a round was given back twice")
			seen[r] = true
			require.Equal(c.t, carrier, r.carrier)
			require.Empty(c.t, r.parts)
			require.Zero(c.t, r.holders.Load())
		}
	}
	for _, r := range g.gathering.rounds[:cap(g.gathering.rounds)] {
		require.Nil(c.t, r)
	}
}

// Releases that gather travel as commands of at most 64 keys; a single one, or
// one that is left over, travels as it is.
func TestReleasesAreMerged(t *testing.T) {
	for n, sizes := range map[int][]int{1: {1}, 2: {2}, 64: {64}, 65: {64, 1}, 150: {64, 64, 22}} {
		t.Run(fmt.Sprint("releases=", n), func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				var want []string
				i := 0
				for _, size := range sizes {
					line := "1 merged"
					for range size {
						line += fmt.Sprint(" k", i)
						i++
					}
					want = append(want, line)
				}
				if n%maxMerged == 1 {
					want[len(want)-1] = fmt.Sprintf("1 release k%d t", n-1)
				}
				l := c.lock(n)
				assert.Equal(t, trip, took(func() {
					for _, err := range l.freeAll() {
						assert.NoError(t, err)
					}
				}))
				time.Sleep(trip)
				for _, node := range c.nodes {
					assert.Equal(t, want, releases(node))
				}
				assert.Empty(t, c.keys())
				assert.Zero(t, c.debts())
				c.healthy()
				c.conserved()
			})
		})
	}
}

// Commands with several keys are merged up to 64 keys, each as a whole, with
// those of one key, unless these have a native form.
func TestMergedCommandsCountTheirKeys(t *testing.T) {
	merger, strange := new(Merger), new(Merger)
	kinds := map[byte]*ReleaseKind{
		'1': {Merger: merger, Native: []Form{{Name: "native"}}}, 'n': {Merger: merger}, 'x': {Merger: strange},
	}
	for _, c := range []struct {
		kinds   string // '1' has a native form
		keys    []int
		n       int
		without int // the native form
	}{
		{"n", []int{3}, 1, 1}, {"n", []int{64}, 1, 1}, {"nn", []int{64, 1}, 1, 1}, {"nnn", []int{3, 3, 3}, 3, 3},
		{"nn", []int{60, 4}, 2, 2}, {"nnn", []int{60, 5, 1}, 1, 1}, {"nnnn", []int{30, 30, 5, 1}, 2, 2},
		{"nxn", []int{3, 3, 3}, 1, 1}, {"nnx", []int{3, 3, 3}, 2, 2},
		{"1", []int{0}, 1, 1}, {"11", []int{0, 0}, 1, 2}, {"1n", []int{0, 3}, 1, 2}, {"n1", []int{3, 0}, 1, 2},
		{"nn1", []int{3, 3, 0}, 2, 3}, {"1n11", []int{0, 62, 0, 0}, 1, 3},
	} {
		var rounds []*round
		for i, keys := range c.keys {
			rounds = append(rounds, &round{verb: kinds[c.kinds[i]].verb(), kept: kept{key: Part{To: 1, Keys: keys}}})
		}
		assert.Equal(t, c.n, (&Group{config: new(Config), forms: agreed{accepted: []string{"native"}}}).alikeLocked(rounds), "%v", c)
		assert.Equal(t, c.without, new(Group).alikeLocked(rounds), "%v", c)
	}
}

// A lock needs all of its keys, and a key that could not be read leaves it
// unknown.
func TestVotesOnTheKeysOfALock(t *testing.T) {
	for want, all := range map[Vote][][]Vote{
		Granted: {{Granted}, {Granted, Granted}},
		Refused: {{Refused}, {Granted, Refused}, {Refused, Granted, Granted}},
		Failed:  {{Failed}, {Granted, Failed}, {Failed, Refused}, {Refused, Granted, Failed}},
	} {
		for _, votes := range all {
			assert.Equal(t, want, together(votes), "%v", votes)
		}
	}
}

// Each caller hears only of its own lock, whether ours stands beside another's
// or beside none, and only our keys are deleted (R9).
func TestMergedResultsAreEachOnesOwn(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(40)
		for i := range l.receipts {
			for _, n := range c.nodes[:i%4] { // on this many nodes it is not ours any more
				key := fmt.Sprint("k", i)
				n.DB().Delete(key)
				if i%3 == 0 {
					n.DB().Set(key, "stranger", time.Hour)
				}
			}
		}
		for i, err := range l.freeAll() {
			want := []error{nil, nil, ErrRefused, ErrRefused}[i%4]
			assert.Equal(t, want, err, "lock %d", i)
		}
		time.Sleep(trip)
		assert.Len(t, releases(c.nodes[0]), 1)
		for _, n := range c.nodes {
			for _, key := range n.Keys() {
				value, _ := n.Get(key)
				assert.Equal(t, "stranger", value)
			}
		}
		c.healthy()
	})
}

// Without any arrangement, concurrent callers need fewer commands than
// releases.
func TestConcurrentReleasesNeedFewCommands(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		const callers, turns = 100, 20
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for j := range turns {
					key := fmt.Sprint(i, "-", j)
					receipt := c.mustClaim(key)
					assert.NoError(t, c.release(background, key, "t", long, receipt))
				}
			})
		}
		wg.Wait()
		time.Sleep(trip)
		assert.Empty(t, c.keys())
		calls := c.nodes[0].Calls("EVALSHA")
		t.Logf("%d commands for %d releases", calls, callers*turns)
		assert.Less(t, calls, callers*turns/4)
		c.healthy()
		c.conserved()
	})
}

// The release of a failed attempt, and one whose caller is already gone, go
// into the log at once: the caller's next SET must not overtake them (R8, R9).
// Other commands that are not awaited, or are no releases, neither wait nor are
// merged.
func TestOnlyAwaitedReleasesAreMerged(t *testing.T) {
	inMergingBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.lock(6)
		gone, cancel := context.WithCancel(background)
		cancel()
		errs := c.gather(8, func(i int) error {
			switch i {
			case 1:
				c.group.Tell(mergingKind, &Command{
					Encoded: encodedRelease("k1", "t"), TTL: long, Receipt: l.receipts[1],
				})
				return nil
			case 3:
				return l.free(gone, i)
			case 6:
				return c.extend(background, "k5", "t", long)
			case 7:
				_, err := c.claim(background, "new", "t", long)
				return err
			}
			return l.free(background, i)
		})()
		errs[3] = nil // the watch may have noticed first that its caller is gone
		assert.Equal(t, make([]error, 8), errs)
		assert.Equal(t, []string{
			"1 release k1 t", "1 release k3 t", "1 extend k5 t", "1 SET new t", "1 merged k0 k2 k4 k5",
		}, story(c.nodes[0])[6:])
		assert.Equal(t, []string{"new"}, c.keys())
		c.conserved()
	})
}

// R8: a caller that gives up and claims again is not refused by its own key.
// Its release was gathered; when it returns because of its context, the release
// is queued.
func TestCancelledWhileGatheredIsQueuedBeforeItReturns(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(4)
		for _, n := range c.nodes {
			n.Delay("EVALSHA", 20*ms)
		}
		ctx, cancel := context.WithCancel(background)
		again := make([]error, 4)
		flush := c.gather(4, func(i int) error {
			err := l.free(ctx, i)
			_, again[i] = c.claim(background, fmt.Sprint("k", i), "t2", long)
			return err
		})
		cancel()
		time.Sleep(20 * ms) // the watch has looked
		synctest.Wait()
		for i, err := range flush() {
			assert.Equal(t, context.Canceled, err)
			assert.NoError(t, again[i], "refused by its own key")
		}
		assert.Equal(t, "1 merged k0 k1 k2 k3", story(c.nodes[0])[4])
	})
}

// The same lock twice in one command: the first release deletes it, the second
// finds nothing, as with two commands.
func TestOneLockTwiceInAMerge(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(2)
		errs := c.gather(4, func(i int) error { return l.free(background, i%2) })()
		assert.Equal(t, []error{nil, nil, ErrRefused, ErrRefused}, errs)
		assert.Equal(t, []string{"1 merged k0 k1 k0 k1"}, releases(c.nodes[0]))
		assert.Empty(t, c.keys())
		assert.Zero(t, c.debts())
	})
}

// A node that refuses the command owes it once (R8).
func TestOneLockTwiceInAMergeIsOwedOnce(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(2)
		c.nodes[0].Refuse(noReplicas, "EVALSHA")
		errs := c.gather(4, func(i int) error { return l.free(background, i%2) })()
		assert.Equal(t, []error{nil, nil, ErrRefused, ErrRefused}, errs)
		time.Sleep(trip)
		assert.Equal(t, 2, c.debts())
		c.nodes[0].Refuse("", "EVALSHA")
		c.settled()
		c.healthy()
	})
}

// Keys and tokens of any bytes and lengths, even empty ones, arrive intact
// (R19).
func TestMergedKeysArriveWhole(t *testing.T) {
	inMergingBubble(t, 1, func(t *testing.T, c *cluster) {
		keys := []string{"k", "\r\n", "$1\r\nx\r\n", strings.Repeat("k", 5000), "\x00", ""}
		var receipts []Receipt
		for i, key := range keys {
			r, err := c.claim(background, key, strings.Repeat("t", 100*i), long)
			require.NoError(t, err)
			receipts = append(receipts, r)
		}
		errs := c.gather(len(keys), func(i int) error {
			return c.release(background, keys[i], strings.Repeat("t", 100*i), long, receipts[i])
		})()
		assert.Equal(t, make([]error, len(keys)), errs)
		assert.Equal(t, 1, c.nodes[0].Calls("EVALSHA"))
		assert.Empty(t, c.keys())
	})
}

// Each kind is merged by its own merger.
func TestMergersAreNotMixed(t *testing.T) {
	const otherSource = "release many, otherwise"
	other := &ReleaseKind{Kind: scripted, Merger: mergerOf(otherSource)}
	inMergingBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.lock(6)
		errs := c.gather(6, func(i int) error {
			kind, key := mergingKind, fmt.Sprint("k", i)
			if i >= 3 {
				kind = other
			}
			err := c.group.Release(background, kind, &Command{
				Encoded: encodedRelease(key, "t"), TTL: long, Receipt: l.receipts[i],
			})
			return err
		})()
		assert.Equal(t, make([]error, 6), errs)
		var digests []string
		for _, e := range c.nodes[0].Log() {
			if e.Args[0] == "EVALSHA" {
				digests = append(digests, e.Args[1])
			}
		}
		assert.Equal(t, []string{redistest.SHA1(releaseManySource), redistest.SHA1(otherSource)}, digests)
	}, func(c *cluster) { c.teachMerged(otherSource) })
}

// R6, R26: the parts of a merged command time out and are cancelled singly,
// each by its own clock, while three of five nodes are silent.
func TestPartsTimeOutOnTheirOwn(t *testing.T) {
	inMergingBubble(t, 5, func(t *testing.T, c *cluster) {
		l := c.lock(6)
		short := map[int]time.Duration{1: 3 * ms, 3: 12 * ms}
		for _, n := range c.nodes[:3] {
			n.Pause()
		}
		errs, spent := make([]error, 6), make([]time.Duration, 6)
		c.gather(6, func(i int) error {
			ctx, cancel := context.Context(background), context.CancelFunc(func() {})
			if d, ok := short[i]; ok {
				ctx, cancel = context.WithTimeout(background, d)
			}
			defer cancel()
			ttl := long
			if i == 5 {
				ttl = time.Second // with a vote timeout of 5 ms
			}
			spent[i] = took(func() { errs[i] = c.release(ctx, fmt.Sprint("k", i), "t", ttl, l.receipts[i]) })
			return nil
		})()
		for i, err := range errs {
			limit := longTimeout + 5*ms
			if d, ok := short[i]; ok {
				assert.Equal(t, context.DeadlineExceeded, err)
				limit = d + 15*ms
			} else {
				assert.Equal(t, []int{0, 1, 2}, undecided(t, err))
				assert.ErrorIs(t, err, ErrTimeout)
			}
			if i == 5 {
				limit = 5*ms + 5*ms
			}
			assert.LessOrEqual(t, spent[i], limit, "part %d", i)
		}
		assert.Len(t, releases(c.nodes[4]), 1)
		for _, n := range c.nodes {
			n.Resume()
		}
		c.eventually(2*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 && c.up() == 5 }, "released")
		time.Sleep(trip)
		c.conserved()
	})
}

// The flusher is not scheduled for longer than the watch waits (R6, R26): the
// watch still looks after what it writes then.
func TestReleasesThatGatheredForLongTimeOut(t *testing.T) {
	for n := range 3 {
		t.Run(fmt.Sprint("releases=", n+1), func(t *testing.T) {
			inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
				l := c.lock(n + 1)
				flush := c.gather(n+1, func(i int) error { return l.free(background, i) })
				for _, node := range c.nodes {
					node.Pause()
				}
				time.Sleep(20 * ms)
				spent := took(func() {
					for _, err := range flush() {
						assert.ErrorIs(t, err, ErrTimeout)
					}
				})
				assert.LessOrEqual(t, 20*ms+spent, longTimeout+5*ms)
				for _, node := range c.nodes {
					node.Resume()
				}
				c.eventually(2*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "released")
			})
		})
	}
}

// R20: rounds and carriers are reused many times, by callers that give up at
// any moment, on nodes that lose their scripts. Race builds poison what is
// given back, and the keys show whether a release was ever another's.
func TestCarriersAreRecycled(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		rng := seeded(t, 1)
		const callers, turns = 24, 60
		stop := make(chan struct{})
		var wg, trouble sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for j := range turns {
					// Each time another key: while a lost script is cured, the
					// caller's next SET may overtake the release that the
					// caller abandoned.
					key, token := fmt.Sprint(i, "-", j), fmt.Sprint("t", i, "-", j)
					receipt, err := c.claim(background, key, token, long)
					assert.NoError(t, err)
					ctx, cancel := context.WithCancel(background)
					if (i+j)%5 == 0 {
						time.AfterFunc(max(pure.Soon, time.Duration(j%7)*ms), cancel)
					}
					err = c.release(ctx, key, token, long, receipt)
					if err != context.Canceled {
						assert.NoError(t, err)
					}
					cancel()
				}
			})
		}
		trouble.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(1+rng.IntN(8)) * ms):
					i := rng.IntN(3)
					c.nodes[i].FlushScripts()
					c.links[i].Latency(time.Duration(rng.IntN(4))*ms, time.Duration(rng.IntN(4))*ms)
				}
			}
		})
		wg.Wait()
		close(stop)
		trouble.Wait()
		c.eventually(2*time.Second, func() bool { return len(c.keys()) == 0 && c.debts() == 0 }, "released")
		time.Sleep(20 * ms)
		merged := slices.ContainsFunc(releases(c.nodes[0]), func(s string) bool { return strings.Contains(s, "merged") })
		assert.True(t, merged)
		c.healthy()
		c.conserved()
	})
}

// A carrier is as old as the oldest of its parts, which is the first: merging
// makes nothing younger.
func TestCarrierIsAsOldAsItsOldestPart(t *testing.T) {
	inMergingBubble(t, 1, func(t *testing.T, c *cluster) {
		c.group.mu.Lock()
		defer c.group.mu.Unlock()
		for range 3 {
			r := c.group.log.take(c.group)
			cmd := &Command{Encoded: encodedRelease("k", "t"), TTL: long}
			c.group.admitLocked(background, r, mergingKind.verb(), cmd, 1)
			time.Sleep(ms)
		}
		oldest := c.group.gathering.rounds[0].at
		c.group.packLocked()
		carrier := c.group.log.ring.Load().at(c.group.log.head - 1)
		require.Len(t, carrier.parts, 3)
		assert.Equal(t, oldest, carrier.at)
		for _, p := range carrier.parts[1:] {
			assert.Greater(t, p.at, oldest)
		}
		c.group.flusher.taken = false // the role that admit gave was not taken
		c.group.promptLocked()
	})
}
