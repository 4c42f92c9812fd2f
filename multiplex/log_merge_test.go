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
var mergingKind = &ReleaseKind{Kind: scripted, Merger: &Merger{
	Kind: Kind{Judge: judgeOneOfMany, Script: true},
	AppendHead: func(dst []byte, n int) []byte {
		dst = resp.AppendArray(dst, 3+2*n)
		dst = resp.AppendBulkString(dst, "EVALSHA")
		dst = resp.AppendBulkString(dst, redistest.SHA1(releaseManySource))
		return resp.AppendBulkString(dst, fmt.Sprint(n))
	},
}}

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

// merging makes cluster.release merge, or not. The nodes get a script that
// releases many keys, and the one that releases a single key recognizes odd
// ones.
func merging(on bool) func(*cluster) {
	return func(c *cluster) {
		if c.merges = on; !on {
			return
		}
		load := resp.AppendCommand(nil, "SCRIPT", "LOAD", releaseManySource)
		c.config.Cure = append(c.config.Cure, load)
		for i, n := range c.nodes {
			steps := c.config.Nodes[i].Prelude
			c.config.Nodes[i].Prelude = append(steps[:len(steps):len(steps)], conn.Step{Command: load})
			n.Script(releaseManySource, releaseMany)
			n.Script(releaseSource, func(keys, args []string, db *redistest.DB) any {
				if result := releaseMany(keys, args, db).([]any)[0]; result != -1 {
					return result
				}
				return errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
			})
		}
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
		subBubble(t, fmt.Sprint("releases=", n), 3, func(t *testing.T, c *cluster) {
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
		}, merging(true))
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
				c.group.Tell(mergingKind, &Command{Encoded: encodedRelease("k1", "t"), TTL: long, Receipt: l.receipts[1]})
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

const noReplicas = "-NOREPLICAS Not enough good replicas to write."

// paidSingly requires that a node got each lock's release on its second
// connection, singly and once.
func (l *locks) paidSingly(node int) {
	l.t.Helper()
	var want, got []string
	for i := range l.receipts {
		want = append(want, fmt.Sprintf("2 release k%d t", i))
	}
	for _, line := range releases(l.nodes[node]) {
		if strings.HasPrefix(line, "2 ") {
			got = append(got, line)
		}
	}
	assert.ElementsMatch(l.t, want, got)
}

// settled waits until all nodes are up and every key and debt is gone.
func (c *cluster) settled() {
	c.t.Helper()
	c.eventually(5*time.Second, func() bool {
		return c.up() == len(c.nodes) && len(c.keys()) == 0 && c.debts() == 0
	}, "settled")
	time.Sleep(10 * trip)
	c.conserved()
}

// R16: a reply that cannot answer three releases ends the connection. No part
// gets a vote from it, not even those before the error. Each fails once on this
// node, is owed by it, and is paid singly.
func TestMergedReplyThatIsNoAnswer(t *testing.T) {
	const noRESP = "*3\r\n:1\r\n:1\r\n1\r\n"
	for _, lie := range []string{
		":1\r\n", "+OK\r\n", "_\r\n", "*-1\r\n", "$-1\r\n", "*0\r\n", // no three replies
		"*2\r\n:1\r\n:1\r\n", "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
		"*3\r\n:1\r\n:1\r\n+OK\r\n", "*3\r\n:1\r\n$1\r\n1\r\n:1\r\n", // no integer among them
		"*3\r\n:1\r\n:1\r\n_\r\n", "*3\r\n:1\r\n:1\r\n-NOREPLICAS no\r\n", "*3\r\n:1\r\n:1\r\n,1\r\n",
		"*3\r\n:1\r\n:1\r\n#t\r\n", "*3\r\n:1\r\n:1\r\n*1\r\n:1\r\n",
		"*3\r\n:1\r\n:1\r\n:2\r\n", "*3\r\n:1\r\n:1\r\n:-2\r\n", // another integer
		"~3\r\n:1\r\n:1\r\n:1\r\n", ">3\r\n:1\r\n:1\r\n:1\r\n", // a set, a push, attributes
		"|1\r\n+a\r\n+b\r\n*3\r\n:1\r\n:1\r\n:1\r\n", "*3\r\n:1\r\n:1\r\n|1\r\n+a\r\n+b\r\n:1\r\n",
		noRESP, "*x\r\n",
	} {
		for _, n := range []int{1, 3} {
			subBubble(t, fmt.Sprintf("%q/nodes=%d", lie, n), n, func(t *testing.T, c *cluster) {
				l := c.lock(3)
				c.links[0].Refuse(true)
				c.nodes[0].Handle(func(id int, args []string) ([]byte, bool) { return []byte(lie), id == 1 && args[0] == "EVALSHA" })
				for _, err := range l.freeAll() {
					if n == 3 {
						assert.NoError(t, err, "the others decide")
						continue
					}
					assert.Equal(t, []int{0}, undecided(t, err))
					assert.True(t, errors.Is(err, ErrUnexpected) || lie == noRESP || lie == "*x\r\n", "%v", err)
				}
				time.Sleep(trip)
				assert.Equal(t, 1, c.status(0).Deaths)
				assert.Equal(t, 3, c.status(0).Debts, "each once")
				assert.Equal(t, 3, c.debts())
				c.links[0].Refuse(false)
				c.settled()
				l.paidSingly(0)
			}, merging(true))
		}
	}
}

// An unreadable key affects only its own release: that is undecided and owed,
// and the other 63 are done. The debt ends when the key becomes readable.
func TestOddKeyAmongMerged(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(64)
		for _, n := range c.nodes[:2] {
			n.DB().Set("k40", odd, time.Hour)
		}
		c.nodes[2].DB().Set("k41", odd, time.Hour)
		for i, err := range l.freeAll() {
			if i != 40 {
				assert.NoError(t, err)
				continue
			}
			assert.Equal(t, []int{0, 1}, undecided(t, err))
			var why *RefusalError
			require.ErrorAs(t, err, &why)
			assert.Equal(t, conn.ClassOther, why.Class)
		}
		time.Sleep(trip)
		assert.Equal(t, []string{"k40", "k40", "k41"}, c.keys())
		assert.Equal(t, 3, c.debts())
		for _, n := range c.nodes {
			assert.Equal(t, 1, n.Calls("EVALSHA"))
			n.DB().Set("k40", "t", time.Hour)
			n.DB().Delete("k41")
		}
		c.nodes[2].DB().Delete("k40")
		c.settled()
		c.healthy()
	})
}

// The same lock twice in one command: the first release deletes it, the second
// finds nothing, as with two commands. A node that refuses the command owes
// each lock once (R8).
func TestOneLockTwiceInAMerge(t *testing.T) {
	for _, refusal := range []string{"", noReplicas} {
		inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.lock(2)
			c.nodes[0].Refuse(refusal, "EVALSHA")
			errs := c.gather(4, func(i int) error { return l.free(background, i%2) })()
			assert.Equal(t, []error{nil, nil, ErrRefused, ErrRefused}, errs)
			assert.Equal(t, []string{"1 merged k0 k1 k0 k1"}, releases(c.nodes[1]))
			time.Sleep(trip)
			assert.Equal(t, 2*min(len(refusal), 1), c.debts())
			c.nodes[0].Refuse("", "EVALSHA")
			c.settled()
			c.healthy()
		})
	}
}

// R6, R26: the parts of a merged command time out and are cancelled singly,
// each by its own clock, while three of five nodes are silent.
func TestPartsTimeOutOnTheirOwn(t *testing.T) {
	inMergingBubble(t, 5, func(t *testing.T, c *cluster) {
		parts := []struct {
			ends, ttl, within time.Duration
			err               error
		}{
			{0, long, longTimeout + 5*ms, ErrTimeout},
			{3 * ms, long, 18 * ms, context.DeadlineExceeded},
			{12 * ms, long, 27 * ms, context.DeadlineExceeded},
			{0, time.Second, 10 * ms, ErrTimeout}, // with a vote timeout of 5 ms
		}
		l := c.lock(len(parts))
		pause(c.nodes[:3])
		c.gather(len(parts), func(i int) (err error) {
			ctx, cancel := context.WithCancel(background)
			if p := parts[i]; p.ends > 0 {
				ctx, cancel = context.WithTimeout(background, p.ends)
			}
			defer cancel()
			spent := took(func() { err = c.release(ctx, fmt.Sprint("k", i), "t", parts[i].ttl, l.receipts[i]) })
			assert.ErrorIs(t, err, parts[i].err)
			assert.LessOrEqual(t, spent, parts[i].within, "part %d", i)
			return nil
		})()
		assert.Len(t, releases(c.nodes[4]), 1)
		resume(c.nodes)
		c.settled()
	})
}

// R24: a node that lost the merging script gets it again, and answers in its
// place: one round trip more, and each caller gets its own result. Callers that
// are gone do not matter.
func TestLostScriptOfAMergedCommandIsCured(t *testing.T) {
	for _, gone := range []bool{false, true} {
		inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.lock(7)
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			for _, n := range c.nodes {
				n.DB().Delete("k2")
				n.FlushScripts()
				if gone {
					n.Delay("SCRIPT LOAD", 20*ms)
					time.AfterFunc(trip, cancel)
				}
			}
			flush := c.gather(7, func(i int) error { return l.free(ctx, i) })
			want := []error{nil, nil, ErrRefused, nil, nil, nil, nil}
			if gone {
				want = slices.Repeat([]error{context.Canceled}, 7)
			}
			spent := took(func() { assert.Equal(t, want, flush()) })
			assert.True(t, gone || spent == 2*trip, spent)
			time.Sleep(60*ms + 2*trip)
			for _, n := range c.nodes {
				assert.Equal(t, 2, n.Calls("EVALSHA"))
			}
			c.settled()
			c.healthy()
		})
	}
}

// Nodes change between the moment when releases gather and the moment when they
// are packed. The nodes that are up count when they are packed
// (docs/internals/design.md, "Voters are fixed with the place"), and each
// caller is answered.
func TestNodesChangeWhileReleasesGather(t *testing.T) {
	for name, x := range map[string]struct {
		before, die, join []int // before the releases gather, and while they do
		lacks             []int // the nodes that the errors name
		debts             int   // of each release
	}{
		"one was down":    {before: []int{0}, debts: 1},
		"one dies":        {die: []int{0}, debts: 1},
		"a majority dies": {die: []int{0, 1}, lacks: []int{0, 1}, debts: 2},
		"all die":         {die: []int{0, 1, 2}, lacks: []int{0, 1, 2}, debts: 3},
		"one joins":       {before: []int{0, 1}, join: []int{0}, debts: 1},
	} {
		for _, n := range []int{1, 7} {
			subBubble(t, fmt.Sprint(name, "/", n), 3, func(t *testing.T, c *cluster) {
				l := c.lock(n)
				c.unreachable(x.before...)
				time.Sleep(trip)
				flush := c.gather(n, func(i int) error { return l.free(background, i) })
				c.unreachable(x.die...)
				time.Sleep(trip)
				for _, i := range x.join {
					c.links[i].Refuse(false)
					c.eventually(time.Second, func() bool { return c.status(i).State == Up }, "up")
				}
				for _, err := range flush() {
					if x.lacks == nil {
						assert.NoError(t, err)
					} else {
						assert.Equal(t, x.lacks, undecided(t, err))
						assert.ErrorIs(t, err, ErrDown)
					}
				}
				assert.Equal(t, x.debts*n, c.debts())
				for i, link := range c.links {
					link.Refuse(false)
					assert.LessOrEqual(t, c.status(i).Deaths, 1, "nothing is out of step")
				}
				c.settled()
				if x.join == nil {
					l.paidSingly(0)
				}
			}, merging(true), withConfig(func(c *Config) { c.VoteTimeout = time.Minute }))
		}
	}
}

// A node that never got a claim does not owe its release, merged or not (R8).
func TestMergedReleaseIsOwedWhereItsClaimWent(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(2)
		c.unreachable(0)
		time.Sleep(trip)
		for i := 2; i < 4; i++ {
			l.receipts = append(l.receipts, c.mustClaim(fmt.Sprint("k", i)))
		}
		assert.Equal(t, make([]error, 4), l.freeAll())
		assert.Equal(t, 2, c.debts())
		c.links[0].Refuse(false)
		c.settled()
	})
}

// R28: releases that gather while the group closes end with ErrClosed at the
// latest, and are written if there is time.
func TestCloseWhileReleasesGather(t *testing.T) {
	for _, inTime := range []bool{true, false} {
		subBubble(t, fmt.Sprint("in time=", inTime), 3, func(t *testing.T, c *cluster) {
			l := c.lock(5)
			flush := c.gather(5, func(i int) error { return l.free(background, i) })
			var wg sync.WaitGroup
			wg.Go(func() {
				spent := took(func() { assert.NoError(t, c.group.Close(background)) })
				assert.LessOrEqual(t, spent, unwindMost+longTimeout) // only here does the flush take this long
			})
			time.Sleep(10 * ms)
			if !inTime {
				wg.Wait()
			}
			for _, err := range flush() {
				if inTime {
					assert.NoError(t, err)
					continue
				}
				assert.Equal(t, ErrClosed, err)
			}
			wg.Wait()
			c.closed()
			if inTime {
				assert.Empty(t, c.keys())
			}
			c.conserved()
		}, merging(true))
	}
}

// R28: a Close that is cut short fails each part, in the log and in a lane.
func TestCloseFailsEachPart(t *testing.T) {
	for _, slow := range []string{"EVALSHA", "SCRIPT LOAD"} {
		subBubble(t, slow, 3, func(t *testing.T, c *cluster) {
			l := c.lock(5)
			for _, n := range c.nodes {
				n.FlushScripts()
				n.Delay(slow, time.Hour)
			}
			flush := c.gather(5, func(i int) error { return l.free(background, i) })
			var wg sync.WaitGroup
			wg.Go(func() { assert.Equal(t, slices.Repeat([]error{ErrClosed}, 5), flush()) })
			time.Sleep(2 * trip)
			assert.Equal(t, context.DeadlineExceeded, c.group.Close(brief(t, 10*ms)))
			wg.Wait()
			for _, n := range c.nodes {
				n.Restart() // ends its delays
			}
			c.closed()
			c.conserved()
		}, merging(true), withConfig(func(c *Config) { c.VoteTimeout = time.Second })) // otherwise Close would wait for its end
	}
}

// R8: if CLIENT KILL is forbidden, a SET on the old connection may arrive after
// the merged command that undid it was answered on the new one. Each such
// release is repeated.
func TestMergedReleaseIsRepeatedWhereNothingIsFenced(t *testing.T) {
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		c.nodes[0].Refuse(noPerm, "CLIENT KILL")
		const late = 2 * time.Second
		l := c.lock(2) // answered before, so not in doubt
		l.receipts = append(l.receipts, c.lateSet(0, "k2", late))
		c.eventually(time.Second, func() bool { return c.status(0).State != Up }, "shed")
		c.waitUp(3)
		assert.Equal(t, make([]error, 3), l.freeAll())
		assert.Contains(t, releases(c.nodes[0]), "2 merged k0 k1 k2")
		time.Sleep(late)
		require.Equal(t, 3, c.nodes[0].Calls("SET"), "the SET came late, as it was meant to")
		c.eventually(6*time.Second, func() bool { return len(c.keys()) == 0 }, "no key without a holder")
		c.eventually(11*time.Second, func() bool { return c.debts() == 0 }, "the repetitions end with the TTL")
	})
}
