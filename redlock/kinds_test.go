package redlock

import (
	"testing"
	"time"

	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

// Nodes that have lost the scripts get them with the next command: no extension
// and no release is lost (R24). A claim is not repeated (R8).
func TestScriptsOfEachKindAreCured_R24(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{})
		flush := func() {
			for _, n := range m.nodes {
				n.FlushScripts()
			}
		}
		for name, k := range map[string]Locker{
			"read": c.RW("r").Read(), "write": c.RW("w").Write(), "a permit": c.Semaphore("s", 2), "fair": c.Fair("f"),
		} {
			flush()
			_, err := k.TryAcquire(t.Context(), time.Second)
			require.ErrorIs(t, err, ErrNoQuorum, name)
			time.Sleep(10 * ms) // all nodes have them again
			lock, err := k.TryAcquire(t.Context(), time.Second)
			require.NoError(t, err, name)
			flush()
			lock, err = lock.Extend(t.Context(), time.Second)
			require.NoError(t, err, name)
			flush()
			require.NoError(t, lock.Release(t.Context()), name)
		}
		write, err := c.RW("r").Write().TryAcquire(t.Context(), time.Second)
		require.NoError(t, err)
		flush()
		_, err = c.RW("r").Downgrade(t.Context(), write, time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		for key := range m.sets() {
			require.Equal(t, "s"+wire.PermitsSuffix, key)
		}
	})
}
