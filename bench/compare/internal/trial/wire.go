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
	listener net.Listener
	target   string
	resource []byte        // whose release it is
	released chan struct{} // closed by letGo
	seen     chan struct{} // closed by the first release
	once     sync.Once     // of seen
	letting  sync.Once     // of released
	wg       sync.WaitGroup

	mu    sync.Mutex // guards the following
	conns []net.Conn
}

func newWire(target, resource string) (*wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &wire{
		listener: l, target: target, resource: []byte(resource), released: make(chan struct{}), seen: make(chan struct{}),
	}
	w.wg.Go(w.serve)
	return w, nil
}

func (w *wire) addr() string { return w.listener.Addr().String() }

// letGo delivers what was kept, and keeps nothing from then on. It may be
// called more than once.
func (w *wire) letGo() { w.letting.Do(func() { close(w.released) }) }

// close ends all connections. What is still kept is dropped.
func (w *wire) close() {
	w.listener.Close()
	w.mu.Lock()
	for _, c := range w.conns {
		c.Close()
	}
	w.mu.Unlock()
	w.letGo() // or a connection that keeps a release would wait for ever
	w.wg.Wait()
}

func (w *wire) serve() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.target)
		if err != nil {
			client.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, client, server)
		w.mu.Unlock()
		w.wg.Go(func() { w.up(client, server) })
		w.wg.Go(func() { down(server, client) })
	}
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
