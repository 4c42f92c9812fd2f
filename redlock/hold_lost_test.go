package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A lock that is lost does not look like a request that was cancelled: neither
// where the function returns the error of its context, nor within another call.
func TestALossIsNoCancellation_R12_R14(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, c *Client, fn func(context.Context) error) error{
		"Do": func(ctx context.Context, c *Client, fn func(context.Context) error) error {
			return c.Do(ctx, "r", holdTTL, fn)
		},
		"DoAll": func(ctx context.Context, c *Client, fn func(context.Context) error) error {
			return c.All("r", "s").DoWith(ctx, HoldOptions{TTL: holdTTL}, fn)
		},
		"a Locker": func(ctx context.Context, c *Client, fn func(context.Context) error) error {
			return c.RW("r").Write().DoWith(ctx, HoldOptions{TTL: holdTTL}, fn)
		},
		"a reentrant call": func(ctx context.Context, c *Client, fn func(context.Context) error) error {
			return c.Do(ctx, "r", holdTTL, func(ctx context.Context) error {
				return c.Lock("r").DoWith(ctx, HoldOptions{TTL: holdTTL, Reentrant: true}, fn)
			})
		},
		"another within it": func(ctx context.Context, c *Client, fn func(context.Context) error) error {
			return c.Do(ctx, "r", holdTTL, func(ctx context.Context) error {
				return c.Do(ctx, "s", holdTTL, fn)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, 3, func(t *testing.T, m *memory) {
				c := exactClient(t, m, Config{})
				err := do(t.Context(), c, func(ctx context.Context) error {
					m.silence()
					<-ctx.Done()
					return ctx.Err()
				})
				require.ErrorIs(t, err, ErrLost)
				require.NotErrorIs(t, err, context.Canceled)
				for i := range m.nodes {
					require.LessOrEqual(t, strings.Count(err.Error(), m.nodes[i].Addr()), strings.Count(err.Error(), "all 3 nodes"),
						"each node once for each lock: %v", err)
				}
				m.recover()
			})
		})
	}
}

// The caller's own cancellation is reported as it is.
func TestACancellationUnderAHoldIsReported_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		err := c.Do(ctx, "r", time.Second, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		require.Equal(t, context.Canceled, err)
	})
}

// So is the end of a context that the function has made itself: its work was
// not done, though the lock was held all the time.
func TestAnEndOfTheFunctionsOwnContextIsReported_R14(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		own := func(ctx context.Context) error {
			within, cancel := context.WithCancel(ctx)
			cancel()
			return within.Err()
		}
		for _, reentrant := range []bool{false, true} {
			err := c.Lock("r").DoWith(t.Context(), HoldOptions{TTL: time.Second}, func(ctx context.Context) error {
				if !reentrant {
					return own(ctx)
				}
				return c.Lock("r").DoWith(ctx, HoldOptions{TTL: time.Second, Reentrant: true}, own)
			})
			require.Equal(t, context.Canceled, err, "reentrant: %v", reentrant)
		}
	})
}

// The text of a loss names the nodes that are at fault, each once, and no node
// that was up.
func TestALossNamesTheNodesAtFault_R12(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		c := exactClient(t, m, Config{})
		h := mustHold(t, c, "r", HoldOptions{})
		for _, i := range []int{0, 2} {
			m.link(i).Refuse(true)
			m.link(i).Reset()
		}
		awaitEnd(t, h.Context())
		var lost *LostError
		require.ErrorAs(t, h.Err(), &lost)
		require.Len(t, lost.Nodes, 3)
		require.Error(t, lost.Nodes[1].Err, "it has not renewed the lock")
		text := lost.Error()
		require.NotContains(t, text, m.addr(1))
		for _, addr := range []string{m.addr(0), m.addr(2)} {
			require.Equal(t, 1, strings.Count(text, addr), text)
		}
	})
}

// The first renewal that fails is reported while there is still time to do
// something about it: once, however many locks are held, and again only after
// one was renewed.
func TestARenewalThatFailsIsReportedInTime_R13_R31(t *testing.T) {
	simulated(t, 3, func(t *testing.T, m *memory) {
		var log lockedText
		logger := slog.New(slog.NewTextHandler(&log, nil))
		c := exactClient(t, m, Config{Logger: logger})
		for i := range 50 {
			mustHold(t, c, fmt.Sprint("customer-4711-", i), HoldOptions{})
		}
		time.Sleep(holdThird - 10*ms)
		for i := range m.nodes {
			m.link(i).Refuse(true)
			m.link(i).Reset()
		}
		time.Sleep(2 * time.Second)
		warned := func() int { return strings.Count(log.String(), "not renewed") }
		require.Equal(t, 1, warned(), log.String())
		require.Contains(t, log.String(), "level=WARN")
		require.Contains(t, log.String(), "connection refused")
		require.NotContains(t, log.String(), "hold lost")
		require.NotContains(t, log.String(), "customer", "R27")
		require.Regexp(t, `left=6\.\d+s`, log.String())
		for i := range m.nodes {
			m.link(i).Refuse(false)
		}
		time.Sleep(holdTTL)
		require.Equal(t, 1, warned())
		require.Len(t, c.Held(), 50)
		for _, h := range c.Held() {
			require.NoError(t, h.Err)
		}
		for i := range m.nodes {
			m.link(i).Refuse(true)
			m.link(i).Reset()
		}
		time.Sleep(holdThird)
		require.Equal(t, 2, warned(), "it is another failure")
		for i := range m.nodes {
			m.link(i).Refuse(false)
		}
	})
}

// A failure is reported again after all locks were lost: none was renewed
// since.
func TestARenewalThatFailsAfterALossIsReported_R13_R31(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		var log lockedText
		c := exactClient(t, m, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for i := range 3 {
			h := mustHold(t, c, "r", HoldOptions{})
			m.silence()
			awaitEnd(t, h.Context())
			require.ErrorIs(t, h.Err(), ErrLost)
			require.Equal(t, i+1, strings.Count(log.String(), "not renewed"), log.String())
			m.recover()
			time.Sleep(time.Hour)
		}
	})
}

// lockedText is a log that is read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
