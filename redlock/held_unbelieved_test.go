package redlock

import (
	"testing"
	"time"

	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/require"
)

// An owner that cannot be printed is none, of whichever kind the lock is: no
// byte of it reaches an error (R33).
func TestOwnerThatIsNotPrintable_R33(t *testing.T) {
	simulated(t, anyNumber, func(t *testing.T, m *memory) {
		c := m.client(t, Config{Owner: "us"})
		value := Token(new(wire.Tokens).Next()).Reveal() + ":\x1b[2Jgone\r\n"
		for _, n := range m.nodes {
			n.DB().Set("r", value, 0)
		}
		for _, try := range []func() error{
			func() error { _, err := c.TryAcquire(t.Context(), "r", time.Second); return err },
			func() error { _, err := c.All("s", "r").TryAcquire(t.Context(), time.Second); return err },
			func() error { _, err := c.RW("r").Read().TryAcquire(t.Context(), time.Second); return err },
			func() error { _, err := c.Fair("r").TryAcquire(t.Context(), time.Second); return err },
		} {
			err := try()
			require.ErrorIs(t, err, ErrHeld)
			require.NotContains(t, err.Error(), "gone")
			require.NotContains(t, err.Error(), "\x1b")
		}
	})
}

// What one lying node can do, as SECURITY.md says: if it votes for every
// client, and two clients each reach only half of the honest ones, both hold
// the lock. That it can do no more is what the other tests of R33 show.
func TestOneNodeThatVotesForEveryClient_R33(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		simulated(t, nodes, func(t *testing.T, m *memory) {
			m.client(t, Config{})
			m.nodes[0].Handle(func(_ int, args []string) ([]byte, bool) {
				return resp.AppendSimpleString(nil, "OK"), args[0] == "SET" && len(args) > 3 && args[1] == "r"
			})
			half := nodes / 2
			for side := range 2 {
				c, network := m.apartPlain(t, Config{})
				for i := range half {
					at := network.At(m.nodes[1+(1-side)*half+i].Addr())
					at.Refuse(true)
					at.Reset()
				}
				_, err := c.Acquire(t.Context(), "r", 10*time.Second)
				require.NoError(t, err, "side %d", side)
			}
		})
	}
}
