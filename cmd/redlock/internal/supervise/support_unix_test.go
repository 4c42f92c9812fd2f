//go:build unix

package supervise

import (
	"bytes"
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// patience bounds the wait for what takes milliseconds on an idle machine.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	GuardMain()
	os.Exit(m.Run())
}

// held returns a lock of a deployment in memory.
func held(t *testing.T, ttl time.Duration) *redlock.Hold {
	t.Helper()
	client := redlocktest.New(t, 3).Client(t, func(c *redlock.Config) {
		c.NodeTimeout, c.MaxTTL, c.Forgetful = patience, 0, true
	})
	hold, err := client.Lock("r").TryHold(t.Context(), redlock.HoldOptions{TTL: ttl})
	require.NoError(t, err)
	t.Cleanup(func() { _ = hold.Release(context.Background()) })
	return hold
}

func eventually(t *testing.T, otherwise string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 2*time.Millisecond, otherwise)
}

// output is a standard error that may be written to after it was read: a message
// is not waited for on a busy machine.
type output struct {
	mu   sync.Mutex // guards the following
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) contains(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Contains(o.text.Bytes(), []byte(text))
}
