package multiplex

import (
	"fmt"
	"strings"
	"testing"
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
		_, what, _ := strings.Cut(line, " ")
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
		subBubble(t, name, 3, func(t *testing.T, c *cluster) {
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

// R24, R25: after an error to a native release, the script cures it on the same
// connection, whether or not a caller waits, and the group leaves the form at
// once.
func TestSurpriseIsCuredByTheScript_R24(t *testing.T) {
	for reply, left := range map[string]bool{ // whether the group leaves the form
		"-ERR unknown command 'DELEX', with args beginning with: 'k0' 'IFEQ' 't'": true,
		"-NOPERM User default has no permissions to run the 'delex' command":      true,
		"-ERR syntax error": true,
		"-ERR wrong number of arguments for 'delex' command": true,
		// The answer of Redis 8.6 where Valkey answers WRONGTYPE: it is about
		// the key, not about the command.
		"-ERR Key should be of string type if conditions are specified": false,
	} {
		for _, told := range []bool{false, true} {
			subBubble(t, fmt.Sprintf("%s/told=%t", reply, told), 3, func(t *testing.T, c *cluster) {
				l := c.lock(3)
				for _, n := range c.nodes[:2] {
					n.Refuse(reply, "DELEX")
					n.FlushScripts() // the scripts are lost as well
				}
				free := func(i int) error { return l.free(background, i) }
				if told {
					free = func(i int) error {
						key := fmt.Sprint("k", i)
						c.group.Tell(nativeKind, &Command{Encoded: encodedRelease(key, "t"), TTL: long, Receipt: l.receipts[i]})
						time.Sleep(2 * trip)
						return nil
					}
				}
				assert.Equal(t, 2*trip, took(func() { assert.NoError(t, free(0)) }))
				assert.Equal(t, left, c.form() == "")
				assert.NoError(t, free(1))
				time.Sleep(2 * trip)
				assert.Equal(t, []string{"k2", "k2", "k2"}, c.keys())
				assert.Zero(t, c.debts())
				want := []string{"DELEX k0 t", "release k0 t", "release k1 t"}
				if !left {
					want = []string{"DELEX k0 t", "release k0 t", "DELEX k1 t", "release k1 t"}
				}
				assert.Equal(t, want, undone(c.nodes[0]))
				assert.Equal(t, "DELEX k0 t", undone(c.nodes[2])[0])
				c.healthy()
				time.Sleep(trip)
				c.conserved()
			}, native("DELEX"))
		}
	}
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
		assert.Equal(t, []error{nil, ErrRefused, nil}, l.freeAll())
		time.Sleep(time.Second)
		assert.Zero(t, c.debts())
		assert.Equal(t, named("DELIFEQ", 0, 3), undone(c.nodes[0]), "nothing is repeated")
		assert.Equal(t, "DELIFEQ", c.form())
		c.healthy()
		c.conserved()
	}, native("DELIFEQ"))
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
			id, what, _ := strings.Cut(line, " ")
			if id != "1" && !strings.HasSuffix(what, " untold") {
				assert.NotContains(t, line, "DELEX")
			}
		}
		assert.Empty(t, c.form())
	}, native("DELEX"))
}

// tellingKind is claimKind with a native form, in whose replies null means the
// opposite.
var tellingKind = &ClaimKind{Kind: Kind{Judge: judgeOK}, Undo: releaseKind, Native: []Form{{
	Name: "NXGET", Head: []byte("*7\r\n$3\r\nSET\r\n"), Tail: []byte("$3\r\nGET\r\n"), Telling: true,
	Judge: func(v resp.Value) Vote {
		switch {
		case v.IsNull():
			return Granted
		case v.Type() == resp.BulkString:
			return Refused
		}
		return Alien
	},
}}}

// withTexts makes these nodes have the form, and the handshake try it.
func withTexts(nodes ...int) func(*cluster) {
	return func(c *cluster) {
		for _, i := range nodes {
			c.nodes[i].Native("NXGET")
		}
		for i := range c.nodes {
			trial := resp.AppendCommand(nil, "SET", "trial", "t", "NX", "PX", "1", "GET")
			step := conn.Step{Name: "NXGET", Command: trial, Optional: true}
			c.config.Nodes[i].Prelude = append([]conn.Step{step}, c.config.Nodes[i].Prelude...)
		}
	}
}

// tell claims a key with a token, and returns what the nodes told.
func (c *cluster) tell(key, token string) (said []string, err error) {
	encoded := keyed(setCommand(key, token, long), key)
	_, err = c.group.Claim(background, tellingKind, &Claim{
		Bytes: encoded.Bytes, Key: encoded.Key, TTL: long, Undo: undoing(encodedRelease(key, token)),
		Told: func(node int, text []byte) { said = append(said, fmt.Sprint(node, " ", string(text))) },
	})
	return said, err
}

// keyed says where the key of SET lies.
func keyed(command []byte, key string) Encoded {
	from := len("*6\r\n$3\r\nSET\r\n")
	return Encoded{command, Part{From: from, To: from + len(resp.AppendBulkString(nil, key))}}
}

// R25: a claim has its native form only while every live node has it, and each
// reply is read by the judge of the form that was sent: of two nulls one is a
// grant and the other a refusal.
func TestClaimsHaveANativeForm_R25(t *testing.T) {
	for name, has := range map[string][]int{"all have it": {0, 1, 2}, "one lacks it": {0, 2}, "none has it": nil} {
		subBubble(t, name, 3, func(t *testing.T, c *cluster) {
			said, err := c.tell("k", "first")
			require.NoError(t, err)
			require.Empty(t, said)
			said, err = c.tell("k", "second")
			require.Equal(t, ErrRefused, err)
			if len(has) == 3 {
				require.Len(t, said, 2, "the two that decided: %v", said)
				for _, s := range said {
					require.Contains(t, s, " first")
				}
			} else {
				require.Empty(t, said)
			}
			mute := keyed(setCommand("k", "mute", long), "k")
			_, err = c.group.Claim(background, tellingKind, &Claim{Bytes: mute.Bytes, Key: mute.Key, TTL: long, Undo: undoing(encodedRelease("k", "mute"))})
			require.Equal(t, ErrRefused, err, "a claim may hear nothing")
			time.Sleep(2 * trip)
			for _, n := range c.nodes {
				value, _ := n.DB().Get("k")
				require.Equal(t, "first", value)
			}
			c.nodes[1].DB().Delete("k")
			_, err = c.tell("k", "third")
			require.Equal(t, ErrRefused, err)
			time.Sleep(2 * trip)
			require.Equal(t, []string{"k", "k"}, c.keys(), "the vote of one node was undone")
			c.healthy()
			c.conserved()
		}, withTexts(has...))
	}
}

// A text is told by the round that it belongs to: a round that is used again
// tells nothing of the one before.
func TestTextsAreOfTheirRound(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		_, err := c.tell("k", "first")
		require.NoError(t, err)
		tell := func(want ...string) {
			for range 8 { // rounds that were used before, too
				said, err := c.tell("k", "again")
				require.Equal(t, ErrRefused, err)
				require.Equal(t, want, said)
				time.Sleep(2 * trip)
			}
		}
		tell("0 first")
		c.nodes[0].Refuse("WRONGTYPE a key of another type is in the way", "SET")
		tell()
		c.nodes[0].Refuse("")
		tell("0 first")
		c.nodes[0].DB().Set("k", strings.Repeat("x", longestText+1), time.Hour)
		tell() // no label is that long
	}, withTexts(0))
}

// A round keeps room for texts only once its claim had a form that has them:
// there may be thousands (R26).
func TestRoundsWithoutTexts_R26(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		withTexts := func() (n int) {
			c.group.mu.Lock()
			defer c.group.mu.Unlock()
			c.group.log.collect()
			for r := c.group.log.free; r != nil; r = r.next {
				if r.texts != nil {
					n++
				}
			}
			return n
		}
		c.mustClaim("k")
		_, err := c.claim(background, "k", "another", long)
		require.Equal(t, ErrRefused, err)
		time.Sleep(2 * trip)
		require.Zero(t, withTexts())
		_, err = c.tell("k", "again")
		require.Equal(t, ErrRefused, err)
		time.Sleep(2 * trip)
		require.Equal(t, 1, withTexts())
	}, withTexts(0))
}

// R8, R25: a claim whose native form met an error is not repeated as given,
// since its release may have run. The group leaves the form.
func TestNativeClaimIsNotRepeated_R8(t *testing.T) {
	for reply, leaves := range map[string]bool{
		"NOPERM this user has no permissions to access a key": true, "ERR syntax error": true,
		"ERR unknown command 'SET'": true, "ERR other": false, "OOM too much": false,
	} {
		inBubble(t, 1, func(t *testing.T, c *cluster) {
			before := c.nodes[0].Calls("SET")
			c.nodes[0].Refuse(reply, "SET")
			_, err := c.tell("k", "t")
			require.Len(t, undecided(t, err), 1)
			c.nodes[0].Refuse("")
			time.Sleep(10 * trip)
			require.Empty(t, c.keys(), reply)
			require.Equal(t, before+1, c.nodes[0].Calls("SET"), reply)
			require.Zero(t, c.group.Nodes()[0].Counts.Cures)
			_, err = c.tell("k", "t")
			require.NoError(t, err)
			said, err := c.tell("k", "u")
			require.Equal(t, ErrRefused, err)
			require.Equal(t, leaves, said == nil, reply)
		}, withTexts(0))
	}
}

// R32: a value that is longer than a reply may be ends each connection once,
// and with it the form.
func TestATextWithoutBoundEndsTheForm_R32(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		for _, n := range c.nodes {
			n.DB().Set("k", strings.Repeat("x", maxReply+1), time.Hour)
		}
		_, err := c.tell("k", "t")
		require.Error(t, err)
		c.waitUp(3)
		for range 3 {
			said, err := c.tell("k", "t")
			require.Equal(t, ErrRefused, err)
			require.Empty(t, said)
		}
		for _, n := range c.group.Nodes() {
			require.Equal(t, 2, n.Connects)
		}
	}, withTexts(0, 1, 2))
}

// A text counts if its node's vote did (R17). That of a node whose time was
// over, or that refused after the decision, may be written at this moment.
func TestOnlyTextsThatCountedAreTold_R17(t *testing.T) {
	r := &round{texts: new(texts)}
	for i := range r.texts[:4] {
		r.texts[i] = fmt.Append(nil, "text ", i)
	}
	var told []string
	r.tell(bitOf(Refused, 0)|bitOf(Failed, 1)|bitOf(Refused, 2)|decided, func(node int, text []byte) {
		told = append(told, fmt.Sprint(node, ": ", string(text)))
	})
	assert.Equal(t, []string{"0: text 0", "2: text 2"}, told)
}
