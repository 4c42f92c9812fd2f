package multiplex

import (
	"context"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const restoreSource = "restore"

// restoreKind sets a missing key again, as a healing extension does.
var restoreKind = &ExtendKind{Kind: scripted, Creates: true}

func withRestore(c *cluster) {
	c.config.Cure = append(c.config.Cure, resp.AppendCommand(nil, "SCRIPT", "LOAD", restoreSource))
	for _, n := range c.nodes {
		n.Script(restoreSource, func(keys, args []string, db *redistest.DB) any {
			db.Set(keys[0], args[0], long)
			return 1
		})
	}
}

func restoreCommand(key, token string) []byte {
	return resp.AppendCommand(nil, "EVALSHA", redistest.SHA1(restoreSource), "1", key, token)
}

// A command that sets a key is not sent again if its script was lost: it would
// come after its own release, which may be native and need no script, or may
// find one that another client has loaded meanwhile. Then no release would undo
// it (R8, R24).
func TestNoCureOvertakesTheRelease_R8(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) { // the handshake does not load this script
		receipt := c.mustClaim("k")
		time.Sleep(trip)
		inbox := NewOutcomes()
		post := func() {
			_, err := c.group.PostExtension(restoreKind, &Command{Encoded: raw(restoreCommand("k", "t")), TTL: long}, Posting{Inbox: inbox})
			require.NoError(t, err)
		}
		post()
		require.NoError(t, c.release(background, "k", "t", long, receipt)) // native, and right behind
		time.Sleep(10 * trip)
		assert.Empty(t, c.keys(), "what was released stays released")
		assert.Zero(t, c.debts())
		o := take(t, inbox, 1)[0]
		assert.ErrorIs(t, o.Err, ErrUndecided)
		var why *RefusalError
		require.ErrorAs(t, o.Err, &why)
		assert.Equal(t, conn.ClassNoScript, why.Class)

		post() // and the next one finds its script
		c.group.Flush()
		assert.NoError(t, take(t, inbox, 1)[0].Err)
		c.healthy()
	}, native("DELEX"), withRestore)
}

// The same for a claim by script. Its caller gives up before the node answers,
// so that its release, which is native, is right behind it.
func TestNoCureOfAClaimOvertakesItsRelease_R8(t *testing.T) {
	claimByScript := &ClaimKind{Kind: scripted, Undo: releaseKind}
	inBubble(t, 3, func(t *testing.T, c *cluster) { // the handshake does not load this script
		claim := func(ctx context.Context) error {
			_, err := c.group.Claim(ctx, claimByScript, &Claim{
				Bytes: restoreCommand("k", "t"), TTL: long, Undo: undoing(raw(releaseCommand("k", "t"))),
			})
			return err
		}
		for _, n := range c.nodes {
			n.Delay("EVALSHA", 10*trip)
		}
		ctx, cancel := context.WithTimeout(background, trip)
		defer cancel()
		require.ErrorIs(t, claim(ctx), context.DeadlineExceeded)
		time.Sleep(50 * trip)
		assert.Empty(t, c.keys(), "what was released stays released")
		assert.Zero(t, c.debts())
		assert.NoError(t, claim(background), "and the next one finds its script")
		c.healthy()
	}, withRestore)
}

// Its vote has failed, and the error says why.
func TestAClaimByALostScriptFails_R24(t *testing.T) {
	claimByScript := &ClaimKind{Kind: scripted, Undo: releaseKind}
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		_, err := c.group.Claim(background, claimByScript, &Claim{Bytes: restoreCommand("k", "t"), TTL: long, Undo: undoing(raw(releaseCommand("k", "t")))})
		var why *RefusalError
		require.ErrorAs(t, err, &why)
		assert.Equal(t, conn.ClassNoScript, why.Class)
	}, withRestore)
}
