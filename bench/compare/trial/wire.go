package trial

import (
	"bytes"
	"net"
	"sync"
)

// A wire stands between clients and a server and delivers one release late.
// What its connection carries from the first release on is kept until letGo,
// and then delivered, even if the client has closed that connection long ago,
// as by a network that still carries packets of an end that is gone. Other
// connections are relayed, even if they bring the same release again.
type wire struct {
	relay
	resource []byte        // whose release it is
	released chan struct{} // closed by letGo
	seen     chan struct{} // closed by the first release
	once     sync.Once     // of seen
	letting  sync.Once     // of released
}

func newWire(target, resource string) (*wire, error) {
	w := &wire{resource: []byte(resource), released: make(chan struct{}), seen: make(chan struct{})}
	return w, w.listen(target, func(client, server net.Conn) {
		w.wg.Go(func() { w.up(client, server) })
		w.wg.Go(func() { down(server, client) })
	})
}

// letGo delivers what was kept, and keeps nothing from then on. It may be
// called more than once.
func (w *wire) letGo() { w.letting.Do(func() { close(w.released) }) }

// close ends all connections. What is still kept is dropped.
func (w *wire) close() {
	w.hangUp()
	w.letGo() // or a connection that keeps a release would wait for ever
	w.wg.Wait()
}

// releases are the commands that release locks, here and elsewhere. redislock
// also acquires and extends by scripts; it is not sent through a wire.
var releases = [][]byte{[]byte("EVALSHA"), []byte("evalsha"), []byte("EVAL"), []byte("eval"), []byte("DELEX"), []byte("DELIFEQ")}

// up relays to the server. A release is recognised by its name and the
// resource: clients may try the same commands under other keys when they
// connect. Both arrive in one piece, since clients write a command at a time,
// and commands are shorter than a packet.
func (w *wire) up(client, server net.Conn) {
	defer server.(*net.TCPConn).CloseWrite()
	room := make([]byte, 16<<10)
	keeping := false
	for {
		n, err := client.Read(room)
		for _, name := range releases {
			if bytes.Contains(room[:n], name) && bytes.Contains(room[:n], w.resource) {
				w.once.Do(func() {
					close(w.seen)
					keeping = true
				})
			}
		}
		if keeping {
			<-w.released
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

// down relays to the client.
func down(server, client net.Conn) {
	defer client.Close()
	room := make([]byte, 16<<10)
	for {
		n, err := server.Read(room)
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
