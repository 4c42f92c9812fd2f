package trial

import (
	"net"
	"sync"
)

// A relay accepts clients and connects each to a server.
type relay struct {
	listener net.Listener
	wg       sync.WaitGroup // of the goroutines that relay

	mu    sync.Mutex // guards the following
	conns []net.Conn
}

// listen calls handle for each pair of connections, which relays in goroutines
// of wg. The relay is ended by hangUp, and wg.
func (r *relay) listen(target string, handle func(client, server net.Conn)) (err error) {
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
			handle(client, server)
		}
	})
	return nil
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
