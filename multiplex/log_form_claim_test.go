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
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
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
		})
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

// R8: a claim by script that meets NOSCRIPT is not repeated either. Its release
// runs before the repetition would.
func TestScriptClaimIsNotRepeated_R8(t *testing.T) {
	const source = "claim"
	set := func(keys, args []string, db *redistest.DB) any {
		db.Set(keys[0], args[0], long)
		return 1
	}
	kind := &ClaimKind{Kind: scripted, Undo: releaseKind}
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		claim := func() error {
			command := resp.AppendCommand(nil, "EVALSHA", redistest.SHA1(source), "1", "k", "t")
			_, err := c.group.Claim(background, kind, &Claim{Bytes: command, TTL: long, Undo: undoing(encodedRelease("k", "t"))})
			return err
		}
		require.NotEmpty(t, undecided(t, claim()), "no node has the script yet")
		time.Sleep(10 * trip)
		assert.Empty(t, c.keys(), "an orphan")
		require.NoError(t, claim(), "the nodes got it for the next time")
		time.Sleep(2 * trip)
		c.conserved()
	}, func(c *cluster) {
		c.config.Cure = append(c.config.Cure, resp.AppendCommand(nil, "SCRIPT", "LOAD", source))
		for _, n := range c.nodes {
			n.Script(source, set)
		}
	})
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
