package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/multiplex"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of this file look at the moment between two steps: after the grant and before the caller has the lock, after
// the end of a hold and before its release. The tracer's functions and the fields of a Hold are the seams.

// A hold that was granted when Close began goes to no caller, so it is given back.
func TestAHoldGrantedAsCloseBeginsIsGivenBack_R7_R28(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		closed := make(chan struct{})
		var c *Client
		c = m.client(t, Config{Tracer: &Tracer{AcquireDone: func(AcquireInfo) {
			go func() {
				defer close(closed)
				assert.NoError(t, c.Close(context.Background()))
			}()
			synctest.Wait() // Close waits for the answer of the slow node
		}}})
		m.delay(2, 30*ms)
		_, err := c.Hold(context.Background(), "r", HoldOptions{TTL: holdTTL})
		require.Equal(t, ErrClosed, err)
		<-closed
		time.Sleep(30 * ms)
		require.Zero(t, m.keys())
	})
}

// A goroutine may stand still after the quorum was counted. The lock that has no validity left by then is released on every
// node, also on the one whose vote was not waited for.
func TestALockFoundTooLateAfterTheGrantIsReleased_R4_R7(t *testing.T) {
	for name, config := range map[string]Config{"no validity": {}, "too little validity": {MinValidity: 9 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				c := m.client(t, config)
				lock := mustAcquire(t, c, "r", holdTTL)
				time.Sleep(5 * ms)
				require.Len(t, m.holders("r", lock.token), 3)
				claim := multiplex.Command{Undo: c.appendRelease(nil, "r", &lock.token), Key: c.keyPart("r")}
				spent := holdValidity - config.MinValidity

				kept, err := c.granted(lock, &claim, time.Now().Add(ms-spent))
				require.NoError(t, err)
				require.Equal(t, config.MinValidity+ms, kept.Validity())
				time.Sleep(5 * ms)
				require.Len(t, m.holders("r", lock.token), 3)

				late, err := c.granted(lock, &claim, time.Now().Add(-ms-spent))
				require.Equal(t, ErrExpired, err)
				require.Zero(t, late)
				time.Sleep(5 * ms)
				require.Zero(t, m.keys())
			})
		})
	}
}

// Work under a hold ends with its context, so the context ends before any node can give the lock to others.
func TestAHoldsContextEndsBeforeItsReleaseIsSent_R13_R14(t *testing.T) {
	for _, o := range []HoldOptions{{}, {Heal: true}, {MinHold: 5 * time.Second}} {
		simulated(t, 3, func(t *testing.T, m *memory) {
			c := exactClient(t, m, Config{})
			h := mustHold(t, c, "r", o)
			time.Sleep(5 * ms)
			before := m.nodes[0].Calls("EVALSHA")
			end, ended := h.cancel, false
			h.cancel = func(cause error) {
				time.Sleep(10 * ms) // what was queued before this is executed meanwhile
				require.Equal(t, before, m.nodes[0].Calls("EVALSHA"), "the release was sent first")
				require.NoError(t, h.context.Err())
				end(cause)
				ended = true
			}
			require.NoError(t, h.Release(context.Background()))
			require.True(t, ended)
			time.Sleep(6 * time.Second) // until MinHold is over
			require.Zero(t, m.keys())
		})
	}
}
