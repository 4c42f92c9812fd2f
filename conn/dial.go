package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
)

// Config configures Dial.
type Config struct {
	Endpoint

	// NetDial dials in place of a net.Dialer; Dial adds TLS if the Endpoint has
	// it. NetDial must return when ctx ends. The connection's Close must not
	// wait for the peer, and must unblock its Read and Write. If zero, a
	// net.Dialer.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Credentials is asked by each Dial whose Endpoint has no password, once
	// the node has taken the connection. Its time is part of DialTimeout. It
	// must return when ctx ends. Its error is shown, so it must hold nothing
	// secret. If zero, the Endpoint's credentials count.
	Credentials func(ctx context.Context) (Credentials, error)
	// Prelude holds commands to add to the handshake, in the same write. If
	// zero, none.
	Prelude []Step
	// Admit is called with what the node said of itself, before any reply
	// to the prelude is checked. If a replica refuses a prelude that
	// writes, the error should name the replica, not the refusal. Dial
	// fails with an error of Admit. It must not block. If zero, every node
	// is admitted.
	Admit func(*Server) error
	// Limits bounds what the node may send. If zero, the defaults of
	// resp.Limits.
	Limits resp.Limits
	// Backlog bounds the bytes for a node that does not read: with so many,
	// the following Send fails. If zero, 4 MiB.
	Backlog int
	// Conceal is the prefix of keys. A word with this beginning, quoted by
	// a node in an error, is not shown (R27). If zero, no keys are
	// recognised.
	Conceal string
	// Slot is the hash slot of the keys, as CLUSTER KEYSLOT tells it. With Seeds
	// of a cluster, Dial connects to the master that has it. If zero, slot 0.
	Slot uint16
	// Omit are commands that the handshake leaves out, as Server.Forbidden had
	// them: each try would leave a denial in the server's ACL LOG. If zero, none.
	Omit []string

	unnamed bool   // HELLO goes without the client's name
	id      string // of the server at Addr, in a cluster
}

// Step is one command of Config.Prelude. To a node without HELLO it is sent
// twice, the second time over the connection that Dial returns.
type Step struct {
	// Name is the step's name in errors and in Server. It must contain
	// nothing secret. Optional steps with the same name are one trial. The
	// node must accept each. If zero, "prelude" and its index.
	Name string
	// Command is the command, encoded.
	Command []byte
	// Check is called with the reply, even with an error. If it returns an
	// error, the dial fails. The value is valid until Check returns. If
	// zero, every reply other than an error is accepted.
	Check func(v resp.Value) error
	// If Optional, an error reply or a failed Check does not fail the dial: see
	// Server.Accepted and Server.Refused. If the node cannot answer at the
	// moment (Class.Passing), the dial fails all the same.
	Optional bool
}

// Format prints the name for every verb: the command may hold a key (R27).
func (s Step) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(step "+s.Name+")") }

// DefaultDialTimeout is how long a dial may take for which no endpoint, and no
// configuration, says otherwise.
const DefaultDialTimeout = 5 * time.Second

const (
	defaultKeepAlive = 15 * time.Second
	// By then the third of keepalive's probes would be answered or missed.
	defaultUserTimeout = 15 * time.Second
	keepAliveProbes    = 3
)

// Dial connects to a node and shakes hands with it (R21). It sends all commands
// in one write, and returns when all of them are answered. For a node without
// HELLO, Dial does the same in RESP2 over a fresh connection. For one that
// refuses HELLO with the client's name, it leaves out the name. It never falls
// back from TLS to plaintext.
//
// Dial fails when ctx ends, and with os.ErrDeadlineExceeded after DialTimeout.
// The error is an *Error. Its chain has a *StepError for a command that the
// node refused, and a *PeerError for a peer that does not speak RESP.
//
// With Seeds, Dial asks them first. A third of DialTimeout is for each of them,
// and for each server that they name. One that says that it is no master, or
// not which role it has, is not the node's server.
//
// The caller must call Close on the Conn.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	must(ctx != nil, "the context is nil")
	cfg.Network = cmp.Or(cfg.Network, "tcp")
	if err := cfg.Check(); err != nil {
		return nil, &Error{Op: "dial", Addr: cfg.String(), Err: err}
	}
	timeout := cmp.Or(cfg.DialTimeout, DefaultDialTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, dialTimeout(timeout))
	defer cancel()
	if cfg.Seeds != nil {
		return cfg.find(ctx, timeout/dialParts)
	}
	return cfg.connect(ctx)
}

// connect dials the server at cfg.Addr.
func (cfg *Config) connect(ctx context.Context) (*Conn, error) {
	c, err := open(ctx, cfg, cmp.Or(cfg.Protocol, 3))
	if cfg.refusesName(err) {
		cfg.unnamed = true // the name is no reason to do without the node
		c, err = open(ctx, cfg, 3)
	}
	if cfg.Protocol == 0 && lacksHello(err) {
		c, err = open(ctx, cfg, 2)
	}
	if err != nil {
		return nil, cfg.lookAgain(ctx, err)
	}
	return c, nil
}

// A dialTimeout is the cause of a dial that took longer than DialTimeout. It is
// os.ErrDeadlineExceeded, as other timeouts of the network are, and not
// context.DeadlineExceeded: callers see it as a node's failure, and must not
// take it for the end of their own context.
type dialTimeout time.Duration

// Error returns the text with the time that was allowed.
func (d dialTimeout) Error() string { return "not connected after " + time.Duration(d).String() }

// Timeout implements net.Error.
func (d dialTimeout) Timeout() bool { return true }

// Is matches os.ErrDeadlineExceeded.
func (d dialTimeout) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// Check returns an error if the configuration is invalid. Dial calls it first.
func (cfg *Config) Check() error {
	if err := cmp.Or(
		Credentials{Username: cfg.Username, Password: cfg.Password}.check(),
		errtext.Negative("DB", cfg.DB), errtext.Negative("DialTimeout", cfg.DialTimeout), errtext.Negative("Backlog", cfg.Backlog),
	); err != nil {
		return err
	}
	if cfg.Seeds != nil {
		if err := cfg.Seeds.check(); err != nil {
			return err
		}
	}
	switch {
	case cfg.Seeds != nil && (cfg.Addr != "" || cfg.Network == "unix"):
		return errors.New("both an address and Seeds are set")
	case cfg.Addr == "" && cfg.Seeds == nil:
		return errors.New("no address")
	case cfg.Network != "unix" && strings.HasPrefix(cfg.Addr, ":"):
		return errURLHost
	case cfg.TLS == nil && cfg.TLSFiles != TLSFiles{}:
		return errors.New("TLSFiles without TLS")
	case cfg.Protocol != 0 && cfg.Protocol != 2 && cfg.Protocol != 3:
		return fmt.Errorf("the Protocol is %d: it must be 2 or 3, or 0 for either", cfg.Protocol)
	}
	return checkClientName(cfg.ClientName)
}

// open dials once and shakes hands in the given version of the protocol.
func open(ctx context.Context, cfg *Config, protocol int) (*Conn, error) {
	nc, err := cfg.dial(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx) // more exact than the dialer's "i/o timeout"
		}
		return nil, &Error{Op: "dial", Addr: cfg.String(), Err: err}
	}
	if err := cfg.login(ctx); err != nil {
		_ = nc.Close()
		return nil, &Error{Op: "dial", Addr: cfg.String(), Err: err}
	}
	c := newConn(newLink(nc), cfg.String(), cfg.secrets(), cfg.Limits, cfg.Backlog)
	if cfg.Seeds != nil {
		c.server.Addr = cfg.Addr
	}
	if err := c.shakeHands(ctx, cfg, protocol); err != nil {
		_ = c.Close() // it is broken already; Close waits for the writer
		return nil, err
	}
	if !c.server.AddrKnown {
		c.server.ClientAddr = localAddr(nc)
	}
	return c, nil
}

// reach returns a connection on which nothing has been sent.
func (cfg *Config) reach(ctx context.Context) (net.Conn, error) {
	netDial := cfg.NetDial
	if netDial == nil {
		d := net.Dialer{KeepAlive: -1} // tune sets it
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

// dial returns a connection on which nothing has been sent except TLS's
// handshake.
func (cfg *Config) dial(ctx context.Context) (net.Conn, error) {
	if cfg.TLS == nil {
		return cfg.reach(ctx)
	}
	config, err := cfg.configTLS()
	if err != nil {
		return nil, err
	}
	nc, err := cfg.reach(ctx)
	if err != nil {
		return nil, err
	}
	t, err := cfg.secure(ctx, nc, config)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	return t, nil
}

// tune sets the socket's options. Errors are ignored: the options help to
// detect a dead peer, and none of them is worth a connection that works.
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

// configTLS returns the configuration of one connection. The user's own is not
// changed: all nodes may share it. TLS verifies the node unless the user's says
// otherwise.
func (cfg *Config) configTLS() (*tls.Config, error) {
	config := cfg.TLS.Clone()
	if err := cfg.TLSFiles.read(config); err != nil {
		return nil, &filesError{err}
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	// A batch of commands is one record, if it fits.
	config.DynamicRecordSizingDisabled = true
	if host, _, err := net.SplitHostPort(cfg.Addr); err == nil {
		config.ServerName = cmp.Or(config.ServerName, host)
	}
	return config, nil
}

// secure adds TLS to nc.
func (cfg *Config) secure(ctx context.Context, nc net.Conn, config *tls.Config) (*tls.Conn, error) {
	t := overTLS(nc, config)
	ctx, ended := cfg.suspectPlain(ctx)
	err := t.HandshakeContext(ctx)
	ended()
	var record tls.RecordHeaderError
	switch {
	case err == nil:
	case context.Cause(ctx) == errPlain:
		err = &PeerError{Speaks: speaksNoTLS, Err: errPlain}
	case errors.As(err, &record):
		err = &PeerError{Speaks: cmp.Or(speaks(record.RecordHeader[:]), speaksNoTLS), Err: err}
	case !isLost(err):
		err = &secureError{err}
	}
	return t, err
}

// localAddr returns the address seen by the node without any translation, or ""
// without TCP.
func localAddr(nc net.Conn) string {
	if tcp, ok := below(nc).(*net.TCPConn); ok {
		return tcp.LocalAddr().String()
	}
	return ""
}
