package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"

	"github.com/redmux/redmux/resp"
)

// Config says how to reach a node and what to do on arrival.
type Config struct {
	Endpoint

	// NetDial returns a connection in place of the network's own; TLS is laid over it where the Endpoint has it. It
	// must return when ctx ends. Close of what it returns must not wait for the peer, and must end a Read and a Write
	// that do. If zero, net.Dialer.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Prelude are commands that the owner adds to the handshake, in the same write. If zero, none.
	Prelude []Step
	// Admit judges what the node said of itself, before any answer to the prelude is looked at: a replica refuses a prelude
	// that writes, and that is a symptom, not the reason. An error of it fails the dial. It must not wait. If zero, any node
	// will do.
	Admit func(*Server) error
	// Limits bound what the node may send. If zero, the decoder's own.
	Limits resp.Limits
	// Backlog bounds the bytes that wait for a node that does not read. If zero, 4 MiB.
	Backlog int
	// Conceal is what keys begin with: what a node quotes in an error and begins with it is not shown (R27). If zero, none.
	Conceal string
	// LibVersion is told the node with CLIENT SETINFO. If zero, "dev".
	LibVersion string
}

// Step is one command of the handshake. On a node without HELLO it is sent twice,
// the second time over the connection that stays.
type Step struct {
	// Name is what errors and the Server call the step; it must contain
	// nothing secret. If zero, "prelude" and its index.
	Name string
	// Command is the command, encoded.
	Command []byte
	// Check judges the reply, errors included; an error of it fails the dial. The value is valid until Check returns.
	// If zero, any reply that is no error will do.
	Check func(v resp.Value) error
	// If Optional, an error reply or a failed Check does not fail the dial: see
	// Server.Accepted and Server.Refused. A node that cannot answer at the moment
	// (Class.Passing) fails the dial all the same.
	Optional bool
}

const (
	defaultDialTimeout = 5 * time.Second
	defaultKeepAlive   = 15 * time.Second
	// Of the three probes that keepalive sends, the third would be answered or missed by then.
	defaultUserTimeout = 15 * time.Second
	keepAliveProbes    = 3
)

// Dial connects to a node and shakes hands with it (R21): everything is sent in
// one write, and all of it was answered when Dial returns. On a node that does not
// know HELLO it does the same in RESP2, over a fresh connection. It never falls
// back from TLS to plaintext.
//
// The whole is bounded by DialTimeout, whose end is os.ErrDeadlineExceeded, and by ctx. A failure is an *Error; where the
// node refused a command, a *StepError is in its chain, and where the peer is no
// node at all, a *PeerError.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	cfg.Network = cmp.Or(cfg.Network, "tcp")
	if err := cfg.Check(); err != nil {
		return nil, &Error{Op: "dial", Addr: cfg.String(), Err: err}
	}
	timeout := cmp.Or(cfg.DialTimeout, defaultDialTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, dialTimeout(timeout))
	defer cancel()

	c, err := open(ctx, &cfg, cmp.Or(cfg.Protocol, 3))
	if cfg.Protocol == 0 && lacksHello(err) {
		c, err = open(ctx, &cfg, 2)
	}
	if err != nil {
		return nil, cfg.orProxy(ctx, err)
	}
	return c, nil
}

// A dialTimeout is the cause of a dial that took longer than DialTimeout. It is os.ErrDeadlineExceeded, as other timeouts of
// the network are, and not context.DeadlineExceeded: who waits for something else altogether is told this as a node's reason,
// and must not take it for the end of their own context.
type dialTimeout time.Duration

// Error names the time that was allowed.
func (d dialTimeout) Error() string { return "not connected after " + time.Duration(d).String() }

// Timeout makes it a timeout to who asks by net.Error.
func (d dialTimeout) Timeout() bool { return true }

// Is makes it os.ErrDeadlineExceeded.
func (d dialTimeout) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// Check returns what is wrong with a configuration that Dial refuses without
// trying, or nil.
func (cfg *Config) Check() error {
	switch {
	case cfg.Addr == "":
		return errors.New("no address")
	case cfg.DB < 0:
		return errors.New("negative number of a database")
	case cfg.Protocol != 0 && cfg.Protocol != 2 && cfg.Protocol != 3:
		return errors.New("protocol is neither 2 nor 3")
	case cfg.DialTimeout < 0:
		return errors.New("negative dial timeout")
	case cfg.Backlog < 0:
		return errors.New("negative backlog")
	}
	return checkClientName(cfg.ClientName)
}

// open dials once and shakes hands in the given version of the protocol.
func open(ctx context.Context, cfg *Config, protocol int) (*Conn, error) {
	nc, err := cfg.dial(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx) // says more than the dialer's "i/o timeout"
		}
		return nil, &Error{Op: "dial", Addr: cfg.String(), Err: err}
	}
	c := newConn(newLink(nc), cfg.String(), cfg.Password, cfg.Limits, cfg.Backlog)
	c.username, c.conceal = cfg.Username, cfg.Conceal
	if err := c.shakeHands(ctx, cfg, protocol); err != nil {
		_ = c.Close() // it is broken already; this waits for the writer
		return nil, err
	}
	if !c.server.AddrKnown {
		c.server.ClientAddr = localAddr(nc)
	}
	return c, nil
}

// reach returns a connection on which nothing was sent.
func (cfg *Config) reach(ctx context.Context) (net.Conn, error) {
	netDial := cfg.NetDial
	if netDial == nil {
		d := net.Dialer{KeepAlive: -1} // tune sets it, here as for a NetDial's connections
		netDial = d.DialContext
	}
	nc, err := netDial(ctx, cfg.Network, cfg.Addr)
	if err != nil {
		return nil, err
	}
	if nc == nil {
		return nil, errors.New("NetDial returned neither a connection nor an error")
	}
	if tcp, ok := below(nc).(*net.TCPConn); ok {
		cfg.tune(tcp)
	}
	return nc, nil
}

// dial returns a connection on which nothing was sent but TLS's handshake.
func (cfg *Config) dial(ctx context.Context) (net.Conn, error) {
	nc, err := cfg.reach(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.TLS == nil {
		return nc, nil
	}
	t, err := cfg.secure(ctx, nc)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	return t, nil
}

// tune sets the socket's options. Each of them makes the detection of a dead peer
// better, none is worth a connection that works: errors are ignored.
func (cfg *Config) tune(tcp *net.TCPConn) {
	_ = tcp.SetNoDelay(true)
	idle := cmp.Or(cfg.KeepAlive, defaultKeepAlive)
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: idle > 0, Idle: idle, Interval: idle, Count: keepAliveProbes})
	if d := cmp.Or(cfg.TCPUserTimeout, defaultUserTimeout); d > 0 {
		if raw, err := tcp.SyscallConn(); err == nil {
			_ = setUserTimeout(raw, d)
		}
	}
}

// secure lays TLS over nc, which verifies the node unless the user's configuration
// says otherwise.
func (cfg *Config) secure(ctx context.Context, nc net.Conn) (*tls.Conn, error) {
	config := cfg.TLS.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(cfg.Addr)
		if err == nil {
			config.ServerName = host
		}
	}
	t := tls.Client(nc, config)
	ctx, ended := cfg.suspectPlain(ctx)
	err := t.HandshakeContext(ctx)
	ended()
	var record tls.RecordHeaderError
	if err != nil && context.Cause(ctx) == errPlain {
		err = &PeerError{Speaks: speaksNoTLS, Err: errPlain}
	} else if errors.As(err, &record) {
		err = &PeerError{Speaks: cmp.Or(speaks(record.RecordHeader[:]), speaksNoTLS), Err: err}
	}
	return t, err
}

// localAddr is the address that the node sees where nothing translates it; "" for
// anything but TCP, whose clients alone have one of their own.
func localAddr(nc net.Conn) string {
	if tcp, ok := below(nc).(*net.TCPConn); ok {
		return tcp.LocalAddr().String()
	}
	return ""
}
