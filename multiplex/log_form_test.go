package multiplex

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	forms = []Form{
		{Name: "DELEX", Head: []byte("*4\r\n$5\r\nDELEX\r\n"), Middle: []byte("$4\r\nIFEQ\r\n")},
		{Name: "DELIFEQ", Head: []byte("*3\r\n$7\r\nDELIFEQ\r\n")},
	}
	// nativeKind is mergingKind with native forms.
	nativeKind      = &ReleaseKind{Kind: scripted, Merger: mergingKind.Merger, Native: forms}
	nativeClaimKind = &ClaimKind{Kind: Kind{Judge: judgeOK}, Undo: nativeKind}
)

// native makes the nodes have these commands, and the handshake try them.
func native(commands ...string) func(*cluster) {
	return func(c *cluster) {
		merging(true)(c)
		c.natives = true
		var trials []conn.Step
		for _, f := range forms {
			trial := f.Append(nil, encodedRelease("trial", "untold"))
			trials = append(trials, conn.Step{Name: f.Name, Command: trial, Optional: true, Check: func(v resp.Value) error {
				if judgeInteger(v) != Refused {
					return fmt.Errorf("a trial answered %q", v.Type())
				}
				return nil
			}})
		}
		for i, n := range c.nodes {
			n.Native(commands...)
			c.config.Nodes[i].Prelude = append(trials[:2:2], c.config.Nodes[i].Prelude...)
		}
	}
}

// undone returns the lines of a node's story about releases of any form,
// without the client's id and without trials.
func undone(n *redistest.Node) []string {
	var lines []string
	for _, line := range story(n) {
		_, what, _ := cutSpace(line)
		if !strings.HasPrefix(what, "SET ") && !strings.HasPrefix(what, "KILL ") && !strings.HasSuffix(what, " untold") {
			lines = append(lines, what)
		}
	}
	return lines
}

// named repeats a line for keys numbered from one number to another.
func named(form string, from, to int) []string {
	var lines []string
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf("%s k%d t", form, i))
	}
	return lines
}

func (c *cluster) form() string { return c.group.NativeForm(nativeKind) }

// R25: if every node has a native command, releases take that form, both
// awaited ones and those that undo an attempt, each on its own, since merging
// would gain nothing. If one node lacks it, they are scripts, and merged.
func TestReleaseIsNativeWhereEveryNodeHasIt_R25(t *testing.T) {
	for name, x := range map[string]struct {
		has  [3]string // the native commands of each node
		form string
	}{
		"all DELEX":             {[3]string{"DELEX", "DELEX", "DELEX"}, "DELEX"},
		"all DELIFEQ":           {[3]string{"DELIFEQ", "DELIFEQ", "DELIFEQ"}, "DELIFEQ"},
		"both":                  {[3]string{"DELEX DELIFEQ", "DELEX DELIFEQ", "DELEX DELIFEQ"}, "DELEX"},
		"one in common":         {[3]string{"DELEX DELIFEQ", "DELIFEQ", "DELEX DELIFEQ"}, "DELIFEQ"},
		"none in common":        {[3]string{"DELEX", "DELIFEQ", "DELEX"}, ""},
		"one has none":          {[3]string{"DELEX", "DELEX", ""}, ""},
		"as before native ones": {[3]string{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				require.Equal(t, x.form, c.form())
				l := c.lock(5)
				for _, err := range l.freeAll() {
					assert.NoError(t, err)
				}
				c.nodes[0].DB().Set("undone", "stranger", time.Hour)
				c.nodes[1].DB().Set("undone", "stranger", time.Hour)
				_, err := c.claim(background, "undone", "t", long)
				assert.Equal(t, ErrRefused, err)
				time.Sleep(2 * trip)
				want := append(named(x.form, 0, 5), x.form+" undone t")
				if x.form == "" {
					want = []string{"merged k0 k1 k2 k3 k4", "release undone t"}
				}
				for _, n := range c.nodes {
					assert.Equal(t, want, undone(n))
				}
				assert.Equal(t, []string{"undone", "undone"}, c.keys(), "the stranger's")
				assert.Zero(t, c.debts())
				c.healthy()
				c.conserved()
			}, native(), func(c *cluster) {
				for i, has := range x.has {
					c.nodes[i].Native(strings.Fields(has)...)
				}
			})
		})
	}
}

// Commands without the place of a key, and commands of a kind without native
// forms, are sent unchanged.
func TestCommandsWithoutANativeForm(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.mustClaim("a"), c.mustClaim("b")
		c.group.Tell(nativeKind, &Command{Encoded: raw(releaseCommand("a", "t")), TTL: long, Receipt: a})
		c.group.Tell(releaseKind, &Command{Encoded: encodedRelease("b", "t"), TTL: long, Receipt: b})
		time.Sleep(trip)
		assert.Equal(t, []string{"release a t", "release b t"}, undone(c.nodes[0]))
		assert.Empty(t, c.keys())
		assert.Empty(t, c.group.NativeForm(releaseKind))
		assert.Equal(t, "DELEX", c.form())
	}, native("DELEX"))
}

// R25: a group leaves the form before a node without it gets its first command,
// whatever was queued before, flushed or not. The node that joins never gets a
// command that it does not know. The group takes up the form again when that
// node has gone.
func TestFormIsLeftBeforeANodeWithoutItJoins_R25(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(60)
		c.unreachable(0)
		time.Sleep(trip)
		require.Equal(t, "DELEX", c.form(), "the two that are left have it")
		c.nodes[0].Native() // an older version replaces it
		c.nodes[0].Restart()
		trials := c.nodes[0].Calls("DELEX")
		c.links[0].Refuse(false)
		for i := range 50 { // during the whole join
			require.NoError(t, l.free(background, i))
			time.Sleep(20 * ms)
		}
		c.waitUp(3)
		require.Empty(t, c.form())
		require.NoError(t, l.free(background, 50))
		time.Sleep(trip)

		dials := c.status(0).Connects - 1
		assert.Equal(t, trials+dials, c.nodes[0].Calls("DELEX"), "nothing but the trials of the handshakes")
		lines := undone(c.nodes[1])
		scripts := 0
		for i, line := range lines {
			if strings.HasPrefix(line, "release ") {
				scripts++
				continue
			}
			assert.Zero(t, scripts, "line %d, %q: back in a form that was left", i, line)
		}
		assert.NotZero(t, scripts)
		assert.Less(t, scripts, len(lines))

		c.unreachable(0)
		time.Sleep(trip)
		require.Equal(t, "DELEX", c.form())
		require.NoError(t, l.free(background, 51))
		time.Sleep(trip)
		assert.Equal(t, "DELEX k51 t", last(undone(c.nodes[1])))
	}, native("DELEX"))
}

func last(lines []string) string { return lines[len(lines)-1] }

// Rounds that wait for the next flush when a node without the form joins then
// take the right form. Those that had their place before do not go there.
func TestFormOfWhatWaitsForAFlush_R25(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(8)
		c.links[0].HoldDials(true) // so that it joins at once when allowed, long before the others count as silent
		c.nodes[0].DropConns()
		time.Sleep(2 * time.Second)
		c.nodes[0].Native()
		c.nodes[0].Restart()
		trials := c.nodes[0].Calls("DELEX")
		// Posted releases have their place, awaited ones wait for it.
		flush := c.gather(4, func(i int) error { return l.free(background, i) })
		for i := 4; i < 8; i++ {
			key := fmt.Sprint("k", i)
			c.group.Tell(nativeKind, &Command{
				Encoded: encodedRelease(key, "t"), TTL: long, Receipt: l.receipts[i],
			})
		}
		c.links[0].HoldDials(false)
		c.eventually(40*ms, func() bool { return c.up() == 3 }, "joined")
		for _, err := range flush() {
			assert.NoError(t, err)
		}
		time.Sleep(2 * trip)
		assert.Equal(t, append(named("DELEX", 4, 8), "merged k0 k1 k2 k3"), undone(c.nodes[1]))
		for _, line := range undone(c.nodes[0]) {
			assert.NotContains(t, line, "DELEX")
		}
		assert.Equal(t, trials+1, c.nodes[0].Calls("DELEX"), "the trial")
		assert.Empty(t, c.keys())
		assert.Zero(t, c.debts())
	}, native("DELEX"))
}

// surprises are errors that a native release may meet after the handshake, and
// whether the group leaves the form then.
var surprises = map[string]struct {
	reply string
	left  bool
}{
	"unknown":   {"-ERR unknown command 'DELEX', with args beginning with: 'k0' 'IFEQ' 't'", true},
	"noperm":    {"-NOPERM User default has no permissions to run the 'delex' command", true},
	"syntax":    {"-ERR syntax error", true},
	"arguments": {"-ERR wrong number of arguments for 'delex' command", true},
	// The answer of Redis 8.6 where Valkey answers WRONGTYPE: it is about the
	// key, not about the command.
	"odd key": {"-ERR Key should be of string type if conditions are specified", false},
}

// R24, R25: after an error to a native release, the script cures it on the same
// connection, whether or not a caller waits, and the group leaves the form at
// once.
func TestSurpriseIsCuredByTheScript_R24(t *testing.T) {
	for name, x := range surprises {
		for _, told := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/told=%t", name, told), func(t *testing.T) {
				inBubble(t, 3, func(t *testing.T, c *cluster) {
					l := c.lock(3)
					for _, n := range c.nodes[:2] {
						n.Refuse(x.reply, "DELEX")
						n.FlushScripts() // the scripts are lost as well
					}
					free := func(i int) error { return l.free(background, i) }
					if told {
						free = func(i int) error {
							key := fmt.Sprint("k", i)
							c.group.Tell(nativeKind, &Command{
								Encoded: encodedRelease(key, "t"), TTL: long, Receipt: l.receipts[i],
							})
							time.Sleep(2 * trip)
							return nil
						}
					}
					assert.Equal(t, 2*trip, took(func() { assert.NoError(t, free(0)) }))
					assert.Equal(t, x.left, c.form() == "")
					assert.NoError(t, free(1))
					time.Sleep(2 * trip)
					assert.Equal(t, []string{"k2", "k2", "k2"}, c.keys())
					assert.Zero(t, c.debts())
					want := []string{"DELEX k0 t", "release k0 t", "release k1 t"}
					if !x.left {
						want = []string{"DELEX k0 t", "release k0 t", "DELEX k1 t", "release k1 t"}
					}
					assert.Equal(t, want, undone(c.nodes[0]))
					assert.Equal(t, "DELEX k0 t", undone(c.nodes[2])[0])
					c.healthy()
					time.Sleep(trip)
					c.conserved()
				}, native("DELEX"))
			})
		}
	}
}

// If the command disappears while many releases are in flight, all of them are
// cured.
func TestManySurprises_R24(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(500)
		for _, n := range c.nodes {
			n.Native()
		}
		for _, err := range l.freeAll() {
			assert.NoError(t, err)
		}
		time.Sleep(2 * trip)
		assert.Empty(t, c.keys())
		assert.Zero(t, c.debts())
		assert.Empty(t, c.form())
		c.healthy()
	}, native("DELEX"))
}

// The node is tested again in its next handshake, and the group takes up the
// form again if the node has it.
func TestFormComesBackWithAConnection(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(2)
		c.nodes[1].Refuse(surprises["noperm"].reply, "DELEX")
		require.NoError(t, l.free(background, 0))
		time.Sleep(2 * trip)
		require.Empty(t, c.form())
		c.nodes[1].Refuse("", "DELEX")
		c.nodes[1].DropConns()
		c.eventually(time.Second, func() bool { return c.status(1).Deaths == 1 }, "dead")
		c.waitUp(3)
		require.Equal(t, "DELEX", c.form())
		require.NoError(t, l.free(background, 1))
		time.Sleep(trip)
		for _, n := range c.nodes {
			assert.Equal(t, "DELEX k1 t", last(undone(n)))
		}
	}, native("DELEX"))
}

// The handshake finds a user who may not run the command, and nothing is lost.
func TestFormThatTheUserMayNot_R25(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		assert.Equal(t, "DELIFEQ", c.form())
		l := c.lock(1)
		require.NoError(t, l.free(background, 0))
		time.Sleep(trip)
		assert.Equal(t, []string{"DELIFEQ k0 t"}, undone(c.nodes[0]))
	}, native("DELEX", "DELIFEQ"), func(c *cluster) { c.nodes[2].Refuse(surprises["noperm"].reply, "DELEX") })
}

// R9: a key of another type is not our lock, for a native release as for the
// script: no vote for us, and no debt.
func TestNativeReleaseOfAKeyOfAnotherType_R9(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(3)
		for _, n := range c.nodes[:2] {
			n.Handle(func(_ int, args []string) ([]byte, bool) {
				odd := args[0] == "DELIFEQ" && args[1] == "k1"
				return []byte("-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"), odd
			})
		}
		errs := l.freeAll()
		assert.Equal(t, []error{nil, ErrRefused, nil}, errs)
		time.Sleep(time.Second)
		assert.Zero(t, c.debts())
		assert.Equal(t, named("DELIFEQ", 0, 3), undone(c.nodes[0]), "nothing is repeated")
		assert.Equal(t, "DELIFEQ", c.form())
		c.healthy()
		c.conserved()
	}, native("DELIFEQ"))
}

// R8: a release that a node refuses because of its state is owed, as the script
// that every node understands, and the form stays.
func TestRefusedNativeReleaseIsOwed_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(2)
		for _, n := range c.nodes[:2] {
			n.Refuse(noReplicas)
		}
		assert.Equal(t, []int{0, 1}, undecided(t, l.free(background, 0)))
		assert.Equal(t, 2, c.debts())
		for _, n := range c.nodes[:2] {
			n.Refuse("", "SET", "DEL", "PEXPIRE", "EVAL", "EVALSHA", "DELEX", "DELIFEQ")
		}
		c.eventually(time.Second, func() bool { return c.debts() == 0 }, "paid")
		assert.Equal(t, []string{"DELEX k0 t", "release k0 t"}, undone(c.nodes[0])[:2])
		assert.Equal(t, "DELEX", c.form())
		assert.Equal(t, []string{"k1", "k1", "k1"}, c.keys())
		c.healthy()
	}, native("DELEX"))
}

// R8: releases in flight to a node that dies are owed as scripts too, since an
// older server may replace it.
func TestNativeReleaseInFlightIsOwed_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(20)
		c.nodes[0].Pause()
		for i := range 20 {
			require.NoError(t, l.free(background, i))
		}
		c.eventually(2*time.Second, func() bool { return c.status(0).State != Up }, "shed")
		c.nodes[0].Native()
		c.nodes[0].Resume()
		c.settled()
		for _, line := range story(c.nodes[0]) {
			id, what, _ := cutSpace(line)
			if id != "1" && !strings.HasSuffix(what, " untold") {
				assert.NotContains(t, line, "DELEX")
			}
		}
		assert.Empty(t, c.form())
	}, native("DELEX"))
}

// If a cure meets a full lane, or its script is refused, the release is owed
// (R8, R24).
func TestCureOfASurpriseFails(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.lock(2)
		c.nodes[0].Refuse(surprises["unknown"].reply, "DELEX")
		c.nodes[0].Refuse(noReplicas, "EVALSHA")
		require.NoError(t, l.free(background, 0), "the two others held it")
		time.Sleep(2 * trip)
		assert.Equal(t, 1, c.status(0).Debts)
		c.nodes[0].Refuse("", "EVALSHA")
		c.eventually(time.Second, func() bool { return c.debts() == 0 }, "paid")

		n := c.group.nodes[1]
		c.nodes[1].Refuse("-ERR Key should be of string type if conditions are specified", "DELEX")
		c.nodes[0].Refuse("", "DELEX")
		c.nodes[0].DropConns()
		time.Sleep(time.Second)
		c.waitUp(3)
		require.Equal(t, "DELEX", c.form())
		c.group.mu.Lock()
		n.lane.queued = append(n.lane.queued, make([]laneEntry, n.lane.room())...)
		c.group.mu.Unlock()
		synctest.Wait() // from now on the test is its reader, which owns the counts
		r := &round{group: c.group, verb: nativeKind.verb(), ttl: long, receipt: l.receipts[1], form: &forms[0],
			kept: kept{command: releaseCommand("k1", "t"), key: releaseKey("k1", "t")}}
		r.itself[0] = r
		reader := resp.NewReader(resp.Limits{})
		reader.Commit(copy(reader.Space(), surprises["unknown"].reply+"\r\n"))
		v, ok, err := reader.Next()
		require.True(t, ok && err == nil)
		require.False(t, n.reader.errorToNative(r, v), "no room: the reply counts as a refusal")
		require.NoError(t, n.reader.handleReply(r, nil, v))
		c.group.mu.Lock()
		n.lane.queued = nil
		require.Len(t, n.ledger.Debts, 1)
		require.Equal(t, releaseCommand("k1", "t"), []byte(n.ledger.Debts[0].Command))
		c.group.mu.Unlock()
		synctest.Wait()
	}, native("DELEX"))
}

// Rounds that are used again forget their form.
func TestARoundForgetsItsForm(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		l := c.lock(1)
		require.NoError(t, l.free(background, 0))
		c.nodes[0].Refuse(surprises["unknown"].reply, "EXTEND")
		c.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
			return []byte(surprises["unknown"].reply + "\r\n"), args[0] == "SET"
		})
		for range 5 {
			_, err := c.claim(background, "other", "t", long)
			require.Equal(t, []int{0}, undecided(t, err), "a SET is not cured")
		}
		c.healthy()
	}, native("DELEX"))
}
