package load

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/internal/redistest"
)

// target is the servers under load.
type target struct {
	backend string // remote, spawned or embedded
	urls    []string
	remark  string              // a hint for the user, or ""
	servers []*redistest.Server // the spawned ones, in the order of urls
	close   func()              // ends the servers that were started
}

// openTarget takes the given nodes or starts servers. In-process servers
// replace them only if no server is installed and none was requested: a user
// who asks for a server must learn that there is none.
func openTarget(f *flags) (*target, error) {
	switch {
	case len(f.Nodes) > 0:
		return &target{backend: "remote", urls: f.Nodes, close: func() {}}, nil
	case f.Embedded:
		return embed(f, "")
	}
	t, err := spawn(f)
	if errors.Is(err, redistest.ErrNoServer) && f.Server == "" {
		switch {
		case len(f.Fault) > 0:
			return nil, usageError{fmt.Errorf("--fault needs real servers: %w", err)}
		case f.Network != "unix":
			return nil, usageError{fmt.Errorf("--network needs real servers: %w", err)}
		}
		return embed(f, "redis-server and valkey-server are not on PATH. ")
	}
	return t, err
}

// spawn starts servers with temporary folders. They die with this process. If there is a password, they require it.
func spawn(f *flags) (*target, error) {
	// By default on unix sockets: they take no port, other users cannot connect
	// to them, and they are faster, so that the client is a larger part of what
	// is measured.
	servers, err := redistest.StartN(f.spawned(), redistest.Options{Path: f.Server, Unix: f.Network == "unix", TCP: f.Network == "tcp", TLS: f.Network == "tls"})
	if err != nil {
		return nil, err
	}
	t := &target{backend: "spawned", servers: servers, close: func() {
		for _, s := range servers {
			s.Close()
		}
	}}
	for _, s := range servers {
		url := s.URL()
		if f.Network == "tls" {
			url += "?tls_ca_file=" + neturl.QueryEscape(s.CAFile())
		}
		t.urls = append(t.urls, url)
		if err := requirePassword(s, f); err != nil {
			t.close()
			return nil, fmt.Errorf("a started server takes no password: %w", err)
		}
	}
	return t, nil
}

// requirePassword makes a server require the password, if there is one. The
// password goes over the server's socket and not on its command line, which
// other users of the machine can read (R27).
func requirePassword(s *redistest.Server, f *flags) error {
	if f.password == "" {
		return nil
	}
	_, err := s.Do("ACL", "SETUSER", userName(f.User), "reset", "on", ">"+f.password, "~*", "+@all")
	s.Authenticate(f.User, f.password)
	return err
}

// embed starts servers in this process. why says what made that necessary; it
// is empty if the user asked for it.
func embed(f *flags, why string) (*target, error) {
	t := &target{backend: "embedded", remark: embeddedRemark(f, why)}
	var servers []*miniredis.Miniredis
	t.close = func() {
		for _, s := range servers {
			s.Close()
		}
	}
	for range f.spawned() {
		s := miniredis.NewMiniRedis()
		// Keys expire by the clock, as on real servers. Otherwise a lock whose
		// release was lost would be held forever.
		s.ClockTTL(true)
		if f.password != "" {
			s.RequireUserAuth(userName(f.User), f.password)
		}
		if err := s.Start(); err != nil {
			t.close()
			return nil, fmt.Errorf("in-process server: %w", err)
		}
		servers = append(servers, s)
		t.urls = append(t.urls, "redis://"+s.Addr())
	}
	return t, nil
}

// embeddedRemark lowers the default number of callers to what in-process
// servers can serve, and returns a line that says so.
func embeddedRemark(f *flags, why string) string {
	few := ""
	if f.Callers == nil {
		f.Clients = embeddedCallers
		few = fmt.Sprintf(", with %d callers by default and not %d, since they are slow", embeddedCallers, defaultCallers)
	}
	return why + "The servers run in this process" + few + ": the figures show that it works, not how fast it is. Install redis-server or valkey-server, or name --nodes."
}

// userName returns what an empty name means to a server.
func userName(name string) string {
	if name == "" {
		return "default"
	}
	return name
}

// probeTimeout bounds the delay of the start by a node that does not answer.
const probeTimeout = 2 * time.Second

// probe asks the nodes for their product and version. A node that does not
// answer is no error. It asks through rueidis, whatever is measured, so that
// all results describe their nodes in the same way.
func (t *target) probe(f *flags) ([]bench.NodeInfo, error) {
	cfg := f.rueidisConfig(t.urls)
	cfg.Tune = func(o *rueidis.ClientOption) {
		o.PipelineMultiplex = -1 // one connection each is enough
		o.Dialer.Timeout = probeTimeout
		o.ConnWriteTimeout = probeTimeout
	}
	l, err := bench.OpenRueidis(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	defer l.Close(ctx)
	return l.Nodes(ctx), nil
}
