package redistest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// Proxy stands between clients and a real server and makes the faults of its
// Link on real sockets: latency, pause of one or both directions, drip, cut,
// reset, half-open connections. It relays bytes, so TLS passes through it. It
// listens on TCP, also if the server does not. The caller must close it.
type Proxy struct {
	*Link
	target  *url.URL
	network string // of the target
	address string
	addr    string // of the proxy

	wg sync.WaitGroup // the accept loop and the connections

	mu       sync.Mutex // guards the following
	listener net.Listener
	relays   map[*relay]struct{}
	barred   string // the host of clients that are not served
	closed   bool
}

// NewProxy starts a proxy before the server at targetURL (redis, rediss,
// valkey, valkeys, unix).
func NewProxy(targetURL string) (*Proxy, error) {
	target, err := url.Parse(targetURL)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", errors.Unwrap(err)) // the URL may hold a password
	}
	p := &Proxy{Link: newLink(), target: target, network: "tcp", address: target.Host,
		relays: make(map[*relay]struct{})}
	if target.Scheme == "unix" {
		p.network, p.address = "unix", target.Path
	}
	l, err := listenLow()
	if err != nil {
		return nil, err
	}
	p.addr = l.Addr().String()
	p.serve(l)
	return p, nil
}

// URL is the target's URL with the proxy's address.
func (p *Proxy) URL() string {
	u := *p.target
	u.Host = p.addr
	if u.Scheme == "unix" {
		u.Scheme, u.Path = "redis", ""
	}
	return u.String()
}

// Addr is where the proxy listens, host and port.
func (p *Proxy) Addr() string { return p.addr }

// Refuse closes the listening socket, so that the kernel refuses connections,
// or opens it again on the same port. Open connections stay, those that are
// just coming about do not.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
	case on && p.listener != nil:
		p.listener.Close()
		p.listener = nil
	case !on && p.listener == nil:
		l, err := net.Listen("tcp", p.addr)
		for range 500 { // another process may have the port for a moment
			if err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
			l, err = net.Listen("tcp", p.addr)
		}
		if err != nil {
			panic("redistest: proxy cannot listen again: " + err.Error())
		}
		p.serveLocked(l)
	}
}

// Bar resets each connection that a client at this host opens from now on. An
// empty one ends that.
func (p *Proxy) Bar(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.barred = host
}

// bars reports whether a client is not served.
func (p *Proxy) bars(client net.Conn) bool {
	host, _, _ := net.SplitHostPort(client.RemoteAddr().String())
	p.mu.Lock()
	defer p.mu.Unlock()
	return host == p.barred
}

// Close ends everything and waits for it.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	for r := range p.relays {
		r.abort()
	}
	p.mu.Unlock()
	p.wg.Wait()
	return nil
}

func (p *Proxy) serve(l net.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serveLocked(l)
}

// serveLocked starts the accept loop; Refuse ends it and starts another. The
// caller must hold the lock.
func (p *Proxy) serveLocked(l net.Listener) {
	p.listener = l
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.relay(client.(*net.TCPConn)) })
		}
	})
}

// relay serves one connection to its end.
func (p *Proxy) relay(client *net.TCPConn) {
	if p.bars(client) {
		abort(client)
		return
	}
	server, err := net.DialTimeout(p.network, p.address, doTimeout)
	if err != nil {
		client.SetLinger(0)
		client.Close()
		return
	}
	r := &relay{client: client, server: server, pair: p.add()}
	p.mu.Lock()
	// A test that calls Refuse and then Reset ends the connections in the link.
	// One that was not there yet must not go on.
	if p.closed || p.listener == nil {
		r.abort()
	}
	p.relays[r] = struct{}{}
	p.mu.Unlock()

	r.run()

	p.mu.Lock()
	delete(p.relays, r)
	p.mu.Unlock()
}

// relay is one proxied connection: client ⇄ pair ⇄ server.
type relay struct {
	client, server net.Conn
	pair           *pair
}

// run moves bytes until both directions have ended. Until then the connection
// belongs to the link, also when both ends have closed, so that Resume reaches
// bytes that are in transit or held back.
func (r *relay) run() {
	var wg sync.WaitGroup
	wg.Go(func() {
		suck(r.pair.up, r.client)
		if r.pair.isHalfOpen() {
			r.pair.down.abandon() // nothing else will wake its reader
		}
	})
	wg.Go(func() { spit(r.server, r.pair.up) })
	wg.Go(func() { suck(r.pair.down, r.server) })
	wg.Go(func() { spit(r.client, r.pair.down) })
	wg.Wait()
	r.pair.leave() // both its ends
	r.pair.leave()
	r.client.Close()
	r.server.Close()
}

// abort ends both sockets and both directions at once.
func (r *relay) abort() {
	abort(r.client)
	abort(r.server)
	for _, p := range []*pipe{r.pair.up, r.pair.down} {
		p.finish(syscall.ECONNRESET)
		p.abandon()
	}
}

// suck reads a socket into a pipe; how the socket ended is passed on.
func suck(p *pipe, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if _, werr := p.Write(buf[:n]); werr != nil {
			return
		}
		switch {
		case err == io.EOF:
			p.finish(io.EOF)
			return
		case err != nil:
			p.finish(syscall.ECONNRESET)
			return
		}
	}
}

// spit writes what comes out of a pipe to a socket, and ends it in the same
// way.
func spit(to net.Conn, p *pipe) {
	buf := make([]byte, 32<<10)
	for {
		n, err := p.Read(buf)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				p.abandon()
				return
			}
		}
		switch {
		case err == io.EOF:
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				half.CloseWrite()
			}
			return
		case err != nil:
			abort(to)
			return
		}
	}
}

// abort closes with RST where the socket knows it; a unix socket's peer
// notices ECONNRESET or EOF.
func abort(c net.Conn) {
	if l, ok := c.(interface{ SetLinger(int) error }); ok {
		l.SetLinger(0)
	}
	c.Close()
}
