//go:build linux && !redmux_portable

package conn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A node connects again before its old connection is removed. The new
// connection keeps its place: the poller sees its end, and reads from it when
// it is the only one.
func TestRemoveLeavesTheSuccessor(t *testing.T) {
	eachSort(t, func(t *testing.T, network string, places int) {
		p := startPoller(t, places)
		old, _ := add(t, p, network, 0, 0)
		next, theirs := add(t, p, network, 0, 0)
		p.Remove(old)
		require.NoError(t, old.Close())
		require.Same(t, next, p.conns[0].Load())
		_, err := theirs.Write([]byte("+x\r\n"))
		require.NoError(t, err)
		require.NoError(t, theirs.Close())
		for err == nil { // its last bytes, and its end
			for _, e := range wait(t, p) {
				require.Equal(t, 0, e.ID)
				_, err = readAll(next)
			}
		}
		require.Error(t, next.Err())
	})
}
