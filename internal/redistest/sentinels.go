package redistest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// MasterName is the name by which the sentinels of a test know their master.
const MasterName = "mymaster"

// A SentinelGroup is one primary with replicas, and the sentinels that watch
// it. All of them listen on TCP, or with OverTLS on TLS only.
type SentinelGroup struct {
	// Servers are the primary and its replicas, in the order in which they were
	// started: the first was the primary.
	Servers []*Server
	// Sentinels are servers too: they can be stopped, killed and restarted.
	Sentinels []*Server
}

// Fronted puts a Proxy before each server of a SentinelGroup, see Front. By it
// replicas and sentinels reach the server, and know it by no other address. So a
// primary can be cut off from them while clients reach it at its own. In a
// ClusterGroup the proxies are before the cluster bus, see CutOff.
func Fronted(o *Options) { o.fronted = true }

// SentinelPassword is what the sentinels of a test require, if their servers
// have a password.
const SentinelPassword = "sentinels/@+?"

// Sentinels starts one primary with two replicas and three sentinels for a
// test, and waits until all of them know each other, which takes seconds. A
// primary counts as down after 500 ms. With the option Password, sentinels have
// one as well, which is SentinelPassword.
func Sentinels(tb testing.TB, options ...Option) *SentinelGroup {
	tb.Helper()
	options = append([]Option{OverTCP, OfOneKind, Args("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")}, options...)
	g := &SentinelGroup{Servers: Servers(tb, 3, append(options, toReplicate)...)}
	if g.Servers[0].opts.fronted {
		for i, p := range Proxies(tb, g.Servers) {
			if err := g.Servers[i].standBehind(p); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := g.follow(); err != nil {
		tb.Fatal(err)
	}
	var err error
	if g.Sentinels, err = g.startSentinels(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { CloseAll(g.Sentinels) })
	if err := await("the sentinels", g.Agree); err != nil {
		tb.Fatal(err)
	}
	return g
}

// toReplicate completes the options of servers that replicate each other.
func toReplicate(o *Options) {
	if o.Password != "" {
		o.Args = append(o.Args, "--masterauth", o.Password)
	}
	if o.TLS {
		o.Args = append(o.Args, "--tls-replication", "yes")
	}
}

// Front is the proxy before a server, with Fronted.
func (s *Server) Front() *Proxy { return s.front }

// standBehind makes a server announce itself at a proxy.
func (s *Server) standBehind(p *Proxy) error {
	s.front = p
	_, err := s.Do("CONFIG", "SET", "replica-announce-ip", "127.0.0.1")
	if err == nil {
		_, err = s.Do("CONFIG", "SET", "replica-announce-port", s.peerPort())
	}
	return err
}

// peerPort is the port at which replicas and sentinels reach the server.
func (s *Server) peerPort() string {
	if s.front == nil {
		return strconv.Itoa(s.port)
	}
	return portOf(s.front.Addr())
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// Follow makes a server a replica of another.
func (s *Server) Follow(primary *Server) error {
	_, err := s.Do("REPLICAOF", "127.0.0.1", primary.peerPort())
	return err
}

// follow makes the first server the primary of the others.
func (g *SentinelGroup) follow() error {
	for _, s := range g.Servers[1:] {
		if err := s.Follow(g.Servers[0]); err != nil {
			return err
		}
	}
	return await("the replicas", func() bool {
		return !slices.ContainsFunc(g.Servers[1:], func(s *Server) bool { return s.Info("replication", "master_link_status") != "up" })
	})
}

// startSentinels starts three sentinels.
func (g *SentinelGroup) startSentinels() ([]*Server, error) {
	primary := g.Servers[0]
	opts := Options{Path: primary.opts.Path, TCP: true, TLS: primary.opts.TLS, certs: primary.opts.certs}
	opts.watch = []string{
		"monitor " + MasterName + " 127.0.0.1 " + primary.peerPort() + " 2",
		"down-after-milliseconds " + MasterName + " 500",
		"failover-timeout " + MasterName + " 1500",
		"parallel-syncs " + MasterName + " 2",
	}
	if pw := primary.opts.Password; pw != "" {
		opts.Password = SentinelPassword
		opts.watch = append(opts.watch, "sentinel-pass "+SentinelPassword, "auth-pass "+MasterName+" "+pw)
	}
	return StartN(3, opts)
}

func (s *Server) sentinelFile() string { return filepath.Join(s.dir, "sentinel.conf") }

// writeSentinel writes the file that a sentinel rewrites when it learns
// something, so that a Restart comes back with what it knew.
func (s *Server) writeSentinel() error {
	if len(s.opts.watch) == 0 {
		return nil
	}
	lines := []string{"dir " + s.dir, "logfile " + filepath.Join(s.dir, "log"), "bind 127.0.0.1"}
	if s.opts.TLS {
		for _, option := range s.tlsOptions() {
			lines = append(lines, option[0]+" "+option[1])
		}
		lines = append(lines, "tls-replication yes")
	} else {
		lines = append(lines, "port "+strconv.Itoa(s.port))
	}
	if s.opts.Password != "" {
		lines = append(lines, "requirepass "+s.opts.Password)
	}
	for _, line := range s.opts.watch {
		lines = append(lines, "sentinel "+line)
	}
	return os.WriteFile(s.sentinelFile(), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// Agree reports whether each sentinel knows the others and all replicas, and no
// failover is going on.
func (g *SentinelGroup) Agree() bool {
	return !slices.ContainsFunc(g.Sentinels, func(s *Server) bool {
		said, _ := s.Do("SENTINEL", "MASTER", MasterName)
		facts := pairs(said)
		return facts["num-slaves"] != "2" || facts["num-other-sentinels"] != "2" || facts["flags"] != "master"
	})
}

// URL is where clients connect, with the passwords.
func (g *SentinelGroup) URL() string {
	u := url.URL{Scheme: "redis+sentinel", Host: strings.Join(addrs(g.Sentinels), ","), User: g.Servers[0].userinfo(), Path: "/" + MasterName}
	query := url.Values{}
	if g.Servers[0].opts.TLS {
		u.Scheme = "rediss+sentinel"
		query.Set("tls_ca_file", g.Servers[0].CAFile())
	}
	if g.Sentinels[0].opts.Password != "" {
		query.Set("sentinel_password", SentinelPassword)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// Primary returns the server that a sentinel names, by the word of more than
// half of those that answer, or nil.
func (g *SentinelGroup) Primary() *Server {
	votes, heard := map[string]int{}, 0
	for _, s := range g.Sentinels {
		said, err := s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
		if all, ok := said.([]any); err == nil && ok && len(all) == 2 {
			votes[fmt.Sprint(all[0], ":", all[1])]++
			heard++
		}
	}
	for _, s := range g.Servers {
		if 2*votes[net.JoinHostPort("127.0.0.1", s.peerPort())] > heard {
			return s
		}
	}
	return nil
}

// Failover has a sentinel promote a replica of the primary, and waits until it
// is one. It returns the new primary.
func (g *SentinelGroup) Failover() (*Server, error) {
	former := g.Primary()
	err := await("a failover to begin", func() bool {
		_, err := g.Sentinels[0].Do("SENTINEL", "FAILOVER", MasterName)
		return err == nil // otherwise one is in progress, or no replica is known to be good
	})
	if err != nil {
		return nil, err
	}
	return g.AwaitFailover(former)
}

// AwaitFailover waits until another server than the former is the primary: the
// sentinels say so, and it does. A former primary that was killed comes back
// with Rejoin, and one that was stopped goes on with Continue. The former must
// not have been the only server that was stopped or killed for less than the
// time after which it counts as down.
func (g *SentinelGroup) AwaitFailover(former *Server) (now *Server, err error) {
	err = await("another primary", func() bool {
		now = g.Primary()
		return now != nil && now != former && now.Info("replication", "role") == "master"
	})
	return now, err
}

// Rejoin starts a server that was killed again, as an empty replica of the
// primary.
func (g *SentinelGroup) Rejoin(s *Server) error {
	primary := g.Primary()
	if primary == nil || primary == s {
		return errors.New("redistest: no other server is the primary")
	}
	if err := s.RestartWith("--replicaof", "127.0.0.1 "+primary.peerPort()); err != nil {
		return err
	}
	return await("the replica", func() bool { return s.Info("replication", "master_link_status") == "up" })
}

// Info returns a field of a section of INFO, or "".
func (s *Server) Info(section, field string) string {
	info, _ := s.Do("INFO", section)
	text, _ := info.(string)
	for line := range strings.Lines(text) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), ":"); key == field {
			return value
		}
	}
	return ""
}

// addrs lists the addresses of servers.
func addrs(servers []*Server) (all []string) {
	for _, s := range servers {
		all = append(all, s.TCPAddr())
	}
	return all
}

// pairs returns the texts of a reply of keys and values.
func pairs(reply any) map[string]string {
	all, _ := reply.([]any)
	m := make(map[string]string)
	for i := 0; i+1 < len(all); i += 2 {
		m[fmt.Sprint(all[i])] = fmt.Sprint(all[i+1])
	}
	return m
}

// await polls until something holds.
func await(what string, holds func() bool) error {
	for end := time.Now().Add(startTimeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return nil
		}
	}
	return fmt.Errorf("redistest: waited for %s in vain", what)
}
