//go:build !race

package conn

import (
	"testing"

	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
)

// No command and no reply allocates over TCP and unix sockets.
func TestNoAllocations(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		ours, theirs := sockets(t, network)
		c := adopt(t, ours, 0)
		go answer(theirs)
		command := resp.AppendCommand(nil, "PING")
		roundTrip := func() {
			if err := c.Send(command); err != nil {
				t.Fatal(err)
			}
			for {
				v, ok, err := c.Next()
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					if !v.IsOK() || ClassOf(v) != ClassNone {
						t.Fatal(v)
					}
					return
				}
				if err := c.Fill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		assert.Zero(t, testing.AllocsPerRun(2000, roundTrip), network)
		assert.Zero(t, testing.AllocsPerRun(100, func() { c.Unread() }), network)
	}
}

func TestClassOfDoesNotAllocate(t *testing.T) {
	for _, wire := range []string{"-NOSCRIPT No matching script\r\n", "-ERR max number of clients reached\r\n", "-WRONGTYPE x\r\n"} {
		v := value(t, wire)
		assert.Zero(t, testing.AllocsPerRun(100, func() { ClassOf(v) }), wire)
	}
}
