package conn

import (
	"errors"
	"testing"
	"time"

	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The last reply may come before the writer has returned from its Write. A
// poller takes a connection only if nothing is left to write.
func TestExchangeEndsWhenItIsWritten(t *testing.T) {
	ours, theirs := sockets(t, "tcp")
	go answer(theirs)
	c := adopt(t, &odd{Conn: ours, write: func(p []byte) (int, error) {
		n, err := ours.Write(p)
		time.Sleep(20 * time.Millisecond)
		return n, err
	}}, 0)
	accept := func(int, resp.Value) error { return nil }
	for range 3 {
		require.NoError(t, c.Exchange(t.Context(), []byte("PING\r\n"), 1, accept))
		assert.Zero(t, c.output.pending.Load())
	}
}

// A write that failed during the handshake is never finished; its error is
// reported when the handshake is over.
func TestExchangeDoesNotWaitForAWriteThatFailed(t *testing.T) {
	ours, theirs := sockets(t, "tcp")
	c := newConn(newLink(&odd{Conn: ours, write: func([]byte) (int, error) { return 0, errTest }}), "a:1", secrets{}, resp.Limits{}, 0)
	defer c.Close()
	_, err := theirs.Write([]byte("+OK\r\n"))
	require.NoError(t, err)
	atOnce(t, "Exchange", func() {
		require.NoError(t, c.Exchange(t.Context(), []byte("PING\r\n"), 1, func(int, resp.Value) error { return nil }))
	})
	require.True(t, errors.Is(c.opened(), errTest))
}
