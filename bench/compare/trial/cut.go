package trial

import (
	"bytes"
	"net"
	"sync/atomic"
)

// A cut stands between clients and a server and loses one reply: the server
// executes the first command that names the resource, and the client's
// connection ends instead of the answer. Other connections are relayed.
type cut struct {
	relay
	resource []byte
	lost     atomic.Bool            // set by that command
	command  atomic.Pointer[[]byte] // what carried it, once it is lost
	resent   atomic.Bool            // the same bytes came again
}

func newCut(target, resource string) (*cut, error) {
	c := &cut{resource: []byte(resource)}
	return c, c.listen(target, func(client, server net.Conn) {
		mine := &atomic.Bool{} // the connection whose reply is lost
		c.wg.Go(func() { c.up(client, server, mine) })
		c.wg.Go(func() { c.down(server, client, mine) })
	})
}

func (c *cut) close() {
	c.hangUp()
	c.wg.Wait()
}

// up relays to the server. A command arrives in one piece; see wire.up.
func (c *cut) up(client, server net.Conn, mine *atomic.Bool) {
	defer server.(*net.TCPConn).CloseWrite()
	room := make([]byte, 16<<10)
	for {
		n, err := client.Read(room)
		if bytes.Contains(room[:n], c.resource) && c.lost.CompareAndSwap(false, true) {
			mine.Store(true)
			command := bytes.Clone(room[:n])
			c.command.Store(&command)
		} else if command := c.command.Load(); command != nil && bytes.Contains(room[:n], *command) {
			c.resent.Store(true)
		}
		if n > 0 {
			if _, err := server.Write(room[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// down relays to the client, and ends the connection in place of the reply.
func (c *cut) down(server, client net.Conn, mine *atomic.Bool) {
	defer client.Close()
	room := make([]byte, 16<<10)
	for {
		n, err := server.Read(room)
		if mine.Load() {
			return
		}
		if n > 0 {
			if _, err := client.Write(room[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
