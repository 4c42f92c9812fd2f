package multiplex

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Everything that a group does, at the same time, while nodes die, restart
// empty, forget scripts and refuse, and Close at any moment: every call
// returns, every posted command has its outcome once, every query its answer,
// and nothing is left (R8, R16, R23, R28).
func TestAllAtOnce(t *testing.T) {
	random := seeded(t, rand.Uint64())
	for i := range 6 {
		seed := random.Uint64()
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { allAtOnce(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func allAtOnce(t *testing.T, random *rand.Rand) {
	native := native("DELEX")
	c := newCluster(t, 3, withTrust, native, withRestore, func(c *cluster) {
		switch random.IntN(3) {
		case 0:
			sealedAll(c)
		case 1:
			c.config.Found = true
		}
	})
	ctx, cancel := context.WithTimeout(background, upTo(random, 5*time.Second))
	defer cancel()
	var wg sync.WaitGroup
	each := func(n int, what func(r *rand.Rand)) {
		for range n {
			r := rand.New(rand.NewPCG(random.Uint64(), 2))
			wg.Go(func() {
				for ctx.Err() == nil || r.IntN(3) > 0 {
					what(r)
					time.Sleep(upTo(r, 5*ms))
				}
			})
		}
	}
	key := func(r *rand.Rand) string { return fmt.Sprint("k", r.IntN(4)) }
	each(4, func(r *rand.Rand) { // callers
		k, call := key(r), context.Background()
		if r.IntN(3) == 0 {
			short, cancel := context.WithTimeout(call, upTo(r, 20*ms))
			defer cancel()
			call = short
		}
		receipt, err := c.claim(call, k, "t", maxTTL)
		assert.True(t, isOutcome(err), "%v", err)
		if err == nil {
			_ = c.extend(call, k, "t", maxTTL)
			_ = c.release(call, k, "t", maxTTL, receipt)
		}
	})
	each(2, func(r *rand.Rand) { // posted commands
		inbox, posted := NewOutcomes(), 0
		for range 1 + r.IntN(80) {
			var err error
			if r.IntN(2) == 0 {
				err = c.postRelease(inbox, key(r), Receipt{Sent: All(3)}, nil)
			} else {
				_, err = c.group.PostExtension(restoreKind, &Command{Encoded: raw(restoreCommand(key(r), "t")), TTL: maxTTL}, Posting{Inbox: inbox})
			}
			if err == nil {
				posted++
			}
		}
		c.group.Flush()
		for range posted {
			for _, o := range take(t, inbox, 1) {
				assert.True(t, isOutcome(o.Err), "%v", o.Err)
			}
		}
		assert.Empty(t, inbox.Take(make([]Outcome, 0, 1)))
	})
	each(2, func(r *rand.Rand) { // lookouts
		l := c.group.Lookout([]byte(key(r)))
		defer l.Stop()
		for range 3 {
			if !l.Ask() {
				return
			}
			select {
			case <-l.Signal():
			case <-time.After(max(pure.Soon, upTo(r, 30*ms))):
			case <-c.group.Done():
				return
			}
			l.Expiry()
		}
	})
	each(1, func(r *rand.Rand) { // queries
		c.group.Query(ctx, [][]byte{ping, resp.AppendCommand(nil, "GET", key(r))}, func(int, int, resp.Value) error {
			if r.IntN(20) == 0 {
				return ErrUnexpected
			}
			return nil
		})
		c.group.Nodes()
		c.form()
	})
	each(1, func(r *rand.Rand) { // faults
		n, link := c.nodes[r.IntN(3)], c.links[r.IntN(3)]
		switch r.IntN(8) {
		case 0:
			n.Restart()
		case 1:
			n.DropConns()
		case 2:
			n.FlushScripts()
		case 3:
			n.Pause()
			time.Sleep(upTo(r, 300*ms))
			n.Resume()
		case 4:
			n.Refuse("-BUSY no", "EVALSHA", "DELEX", "CLIENT")
			time.Sleep(upTo(r, 30*ms))
			n.Refuse("", "EVALSHA", "DELEX", "CLIENT")
		case 5:
			link.Reset()
		case 6:
			n.FlushAll()
		case 7:
			n.Native([][]string{{"DELEX"}, {}}[r.IntN(2)]...)
		}
		time.Sleep(upTo(r, 50*ms))
	})
	<-ctx.Done()
	start := time.Now()
	require.NoError(t, c.group.Close(background))
	assert.LessOrEqual(t, time.Since(start), unwindMost+longTimeout+10*ms)
	wg.Wait()
	assert.Zero(t, c.group.life.claims.Load())
	assert.Zero(t, c.group.tracker.listening.Load())
	assert.Zero(t, c.group.tracker.count)
}

func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}
