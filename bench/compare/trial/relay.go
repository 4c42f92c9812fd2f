package trial

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
)

// A relay accepts clients and connects each to a server.
type relay struct {
	listener net.Listener
	wg       sync.WaitGroup // of the goroutines that relay

	mu    sync.Mutex // guards the following
	conns []net.Conn
}

// listen relays until hangUp. For each client, begin returns what looks at the
// commands on their way up, and at the answers on their way down: a command
// arrives in one piece, since clients write one at a time, and commands are
// shorter than a packet. An answer for which down is false ends the connection.
func (r *relay) listen(target string, begin func() (up func([]byte), down func() bool)) (err error) {
	if r.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	r.wg.Go(func() {
		for {
			client, err := r.listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, client, server)
			r.mu.Unlock()
			up, down := begin()
			r.wg.Go(func() {
				defer server.(*net.TCPConn).CloseWrite()
				carry(client, server, func(command []byte) bool { up(command); return true })
			})
			r.wg.Go(func() {
				defer client.Close()
				carry(server, client, func([]byte) bool { return down() })
			})
		}
	})
	return nil
}

// carry copies what arrives, until the end of either side, or of look.
func carry(from, to net.Conn, look func([]byte) bool) {
	room := make([]byte, 16<<10)
	for {
		n, err := from.Read(room)
		if !look(room[:n]) {
			return
		}
		if n > 0 {
			if _, err := to.Write(room[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (r *relay) addr() string { return r.listener.Addr().String() }

// hangUp ends all connections.
func (r *relay) hangUp() {
	r.listener.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
}

// A cut is a relay that loses one reply: the server executes the first command
// that names the resource, and the client's connection ends instead of the
// answer. Other connections are relayed.
type cut struct {
	relay
	lost    atomic.Bool            // set by that command
	command atomic.Pointer[[]byte] // what carried it, once it is lost
	resent  atomic.Bool            // the same bytes came again
}

func newCut(target, resource string) (*cut, error) {
	c := &cut{}
	return c, c.listen(target, func() (up func([]byte), down func() bool) {
		mine := &atomic.Bool{} // the connection whose reply is lost
		return func(sent []byte) {
			if bytes.Contains(sent, []byte(resource)) && c.lost.CompareAndSwap(false, true) {
				mine.Store(true)
				command := bytes.Clone(sent)
				c.command.Store(&command)
			} else if command := c.command.Load(); command != nil && bytes.Contains(sent, *command) {
				c.resent.Store(true)
			}
		}, func() bool { return !mine.Load() }
	})
}

func (c *cut) close() {
	c.hangUp()
	c.wg.Wait()
}

// A wire is a relay that delivers one release late. What its connection carries
// from the first release on is kept until letGo, and then delivered, even if the
// client has closed that connection long ago, as by a network that still carries
// packets of an end that is gone. Other connections are relayed, even if they
// bring the same release again.
type wire struct {
	relay
	released chan struct{} // closed by letGo
	seen     chan struct{} // closed by the first release
	once     sync.Once     // of seen
	letting  sync.Once     // of released
}

// releases are the commands that release locks, here and elsewhere. redislock
// also acquires and extends by scripts; it is not sent through a wire.
var releases = [][]byte{[]byte("EVALSHA"), []byte("evalsha"), []byte("EVAL"), []byte("eval"), []byte("DELEX"), []byte("DELIFEQ")}

// A release is recognised by its name and the resource: clients may try the same
// commands under other keys when they connect.
func newWire(target, resource string) (*wire, error) {
	w := &wire{released: make(chan struct{}), seen: make(chan struct{})}
	return w, w.listen(target, func() (up func([]byte), down func() bool) {
		keeping := false
		return func(sent []byte) {
			for _, name := range releases {
				if bytes.Contains(sent, name) && bytes.Contains(sent, []byte(resource)) {
					w.once.Do(func() {
						close(w.seen)
						keeping = true
					})
				}
			}
			if keeping {
				<-w.released
			}
		}, func() bool { return true }
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
