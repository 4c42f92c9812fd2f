package redistest

import (
	"errors"
	"os"
	"testing"
)

// Option changes how Servers starts its servers.
type Option func(*Options)

// OverUnix, OverTCP and OverTLS are Options that say where servers listen.
func OverUnix(o *Options) { o.Unix = true }

// OverTCP listens on a free port of 127.0.0.1.
func OverTCP(o *Options) { o.TCP = true }

// OverTLS listens on a free port with a certificate made for the test.
func OverTLS(o *Options) { o.TLS = true }

// Password is required of clients.
func Password(password string) Option {
	return func(o *Options) { o.Password = password }
}

// Args are appended to the command line.
func Args(args ...string) Option {
	return func(o *Options) { o.Args = append(o.Args, args...) }
}

// OfOneKind makes all servers the one that Find finds, also where FindAll finds
// several: one can replicate another.
func OfOneKind(o *Options) { o.Path, _ = Find() }

// Servers starts n real servers for a test, on unix sockets unless an option
// says otherwise, and ends them with it. Where there is no server the test is
// skipped, or fails when REDMUX_REQUIRE_SERVERS is 1.
func Servers(tb testing.TB, n int, options ...Option) []*Server {
	tb.Helper()
	var opts Options
	for _, o := range options {
		o(&opts)
	}
	if opts.Path == "" {
		Require(tb)
	}
	if opts.OwnClock {
		requireClocks(tb)
	}
	servers, err := StartN(n, opts)
	if errors.Is(err, ErrNoClocks) { // these servers cannot load the library
		tb.Skipf("skipped: it needs servers with clocks of their own. %v", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		CloseAll(servers)
	})
	return servers
}

// URLs lists where clients connect.
func URLs[S interface{ URL() string }](servers []S) []string {
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.URL()
	}
	return urls
}

// Proxies puts a proxy before each server for the time of the test.
func Proxies(tb testing.TB, servers []*Server) []*Proxy {
	tb.Helper()
	proxies := make([]*Proxy, len(servers))
	for i, s := range servers {
		p, err := NewProxy(s.URL())
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { p.Close() })
		proxies[i] = p
	}
	return proxies
}

// Nodes starts n nodes in memory for a test, at the hosts of the arrangement in
// config, and ends them with it. Without one, these are node0:6379, ….
func Nodes(tb testing.TB, network *Network, n int, config NodeConfig) []*Node {
	tb.Helper()
	nodes := make([]*Node, n)
	for i := range nodes {
		nodes[i] = NewNode(config)
		nodes[i].Serve(network.Listen(config.Arrangement.Host(i)))
		tb.Cleanup(func() { nodes[i].Close() })
	}
	return nodes
}

// Require skips a test if there is no real server, or fails it if
// REDMUX_REQUIRE_SERVERS is 1, and prints what to do about it. Servers calls
// it; tests of code that starts its own servers must call it themselves.
func Require(tb testing.TB) {
	tb.Helper()
	if _, ok := Find(); ok {
		return
	}
	if os.Getenv("REDMUX_REQUIRE_SERVERS") == "1" {
		tb.Fatalf("%v, and REDMUX_REQUIRE_SERVERS is 1", ErrNoServer)
	}
	tb.Skipf("skipped: it needs real servers. %v", ErrNoServer)
}
