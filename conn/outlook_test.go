package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redmux/redmux/resp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a node says ends a wait, unless it is known to pass (R31).
func TestOutlookOfWhatANodeSays_R31(t *testing.T) {
	for outlook, answers := range map[Outlook]string{
		Passing: `
LOADING Redis is loading the dataset in memory
BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.
MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.
CLUSTERDOWN Hash slot not served
TRYAGAIN Multiple keys request during rehashing of slot
MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.
NOREPLICAS Not enough good replicas to write.
OOM command not allowed when used memory > 'maxmemory'.
ERR max number of clients reached
ERR max number of clients + cluster connections reached
no upstream host
upstream failure
ERR no server avaliable
ERR server connection close
ERR backend conn failure, EOF
ERR Connection refused
ERR Connection timed out`,
		Brief: `
READONLY You can't write against a read only replica.
NOSCRIPT No matching script. Please use EVAL.`,
		Lasting: `
WRONGPASS invalid username-password pair or user is disabled.
NOAUTH Authentication required.
NOPERM this user has no permissions to run the 'set' command
DENIED Redis is running in protected mode because protected mode is enabled. In this mode connections are only accepted from the loopback interface.
ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
ERR Client sent AUTH, but no password is set
ERR invalid password
ERR DB index is out of range
ERR SELECT is not allowed in cluster mode
ERR command is not supported
ERR unknown command 'SET', with args beginning with: 'x'
ERR unknown subcommand 'LOAD'. Try SCRIPT HELP.
ERR syntax error
ERR wrong number of arguments for 'hello' command
ERR This instance has cluster support disabled
CROSSSLOT Keys in request don't hash to the same slot
MOVED 866 127.0.0.1:7001
ASK 866 127.0.0.1:7001
NOPROTO unsupported protocol version
WRONGTYPE Operation against a key holding the wrong kind of value
UNKNOWNREDISERROR timeout
unsupported command 'hello'
invalid request
ERR`,
	} {
		for _, answer := range strings.Split(answers, "\n")[1:] {
			refusal := &resp.Error{Message: answer}
			assert.Equal(t, outlook, classify([]byte(answer)).Outlook(), answer)
			for _, err := range []error{refusal, &Error{Op: "handshake", Err: &StepError{Step: "HELLO", Class: classify([]byte(answer)), Err: refusal}}} {
				assert.Equal(t, outlook, OutlookOf(err), answer)
			}
		}
	}
	assert.Equal(t, Lasting, Class(200).Outlook())
}

// Connections that are lost, refused or late may come back. Another protocol,
// TLS that cannot be agreed upon, and an address that cannot be are lasting
// (R31).
func TestOutlookOfConnections_R31(t *testing.T) {
	dial := func(err error) error { return &Error{Op: "dial", Err: err} }
	op := func(network string, err error) error {
		return dial(&net.OpError{Op: "dial", Net: network, Err: &os.SyscallError{Syscall: "connect", Err: err}})
	}
	shake := func(err error) error { return &Error{Op: "handshake", Err: err} }
	alert := func(number uint8) error {
		return &net.OpError{Op: "remote error", Err: tls.AlertError(number)}
	}
	for _, c := range []struct {
		err  error
		want Outlook
	}{
		{op("tcp", syscall.ECONNREFUSED), Passing},
		{op("tcp", syscall.EHOSTUNREACH), Passing},
		{op("tcp", syscall.ENETUNREACH), Passing},
		{op("tcp", syscall.ETIMEDOUT), Passing},
		{op("tcp", syscall.EPERM), Passing}, // a firewall
		{op("tcp", syscall.EMFILE), Passing},
		{op("unix", syscall.ENOENT), Passing},
		{op("unix", syscall.ECONNREFUSED), Passing},
		{op("unix", syscall.EACCES), Lasting},
		{op("tcp", syscall.EINVAL), Lasting},
		{op("tcp", syscall.EAFNOSUPPORT), Lasting},
		{dial(errors.New("socks: host unreachable")), Passing}, // of a NetDial
		{dial(dialTimeout(time.Second)), Passing},
		{dial(&net.DNSError{Err: "no such host", IsNotFound: true}), Brief},
		{dial(&net.DNSError{Err: "server misbehaving", IsTemporary: true}), Passing},
		{dial(&net.AddrError{Err: "missing port in address"}), Lasting},
		{dial(net.UnknownNetworkError("udp9")), Lasting},
		{dial(&filesError{os.ErrNotExist}), Brief},
		{dial(&secureError{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}), Lasting},
		{dial(&secureError{errors.New("tls: server selected unsupported protocol version 302")}), Lasting},
		{dial(&secureError{alert(70)}), Lasting}, // protocol version
		{shake(alert(116)), Lasting},             // certificate required
		{shake(alert(48)), Lasting},              // unknown authority
		{dial(&secureError{alert(80)}), Passing}, // internal error
		{shake(fmt.Errorf("x: %w", alert(80))), Passing},
		{dial(&PeerError{Speaks: "no TLS", Err: errPlain}), Lasting},
		{&Error{Op: "parse", Err: &PeerError{Err: &resp.SyntaxError{}}}, Lasting},
		{&Error{Op: "parse", Err: &resp.SyntaxError{}}, Lasting},
		{shake(fmt.Errorf("%w: reply of type Null", ErrProtocol)), Lasting},
		{shake(&StepError{Step: "SELECT", Err: io.EOF}), Lasting},
		{shake(ErrProxy), Lasting},
		{shake(ErrUnanswered), Passing},
		{shake(io.EOF), Passing},
		{&Error{Op: "read", Err: syscall.ECONNRESET}, Passing},
		{&Error{Op: "write", Err: syscall.EPIPE}, Passing},
		{&Error{Op: "write", Err: ErrStalled}, Passing},
		{shake(context.Canceled), Passing},
		{errors.New("what is this?"), Lasting},
	} {
		assert.Equal(t, c.want, OutlookOf(c.err), "%v", c.err)
	}
}

// peer is a listener that serves each connection with what the function says of
// its number.
func peer(t *testing.T, serve func(n int, nc net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				serve(n, nc)
			}()
		}
	}()
	return l.Addr().String()
}

// A connection that ends at HELLO without a word gets a second look: a PING and
// a HELLO, and then the beginning of TLS. Only what one connection shows is
// called something; a proxy may just have no server (R31).
func TestAnUnansweredHelloGetsASecondLook_R31(t *testing.T) {
	certs := newCertificates(t)
	old := certs.server()
	old.MaxVersion = tls.VersionTLS11
	mutual := certs.server()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, certs.pool
	hangUp := func(int, net.Conn) {}
	secure := func(config *tls.Config) func(int, net.Conn) {
		return func(_ int, nc net.Conn) {
			first := make([]byte, 1)
			if n, _ := nc.Read(first); n == 0 || first[0] != 0x16 {
				return // without an alert, as redis-server does
			}
			_ = tls.Server(&rewound{nc, first}, config).Handshake()
		}
	}
	node := &script{}
	for name, c := range map[string]struct {
		serve   func(int, net.Conn)
		says    string
		outlook Outlook
	}{
		"nothing":                        {hangUp, "connection ended before the answer to HELLO", Passing},
		"TLS":                            {secure(certs.server()), "peer speaks TLS (use rediss://)", Lasting},
		"TLS with certificates":          {secure(mutual), "peer speaks TLS (use rediss://)", Lasting},
		"TLS of old":                     {secure(old), "peer speaks TLS (use rediss://)", Lasting},
		"a proxy that answers PING only": {answersPing, "looks like a proxy", Lasting},
		"a proxy that gets its server": {func(n int, nc net.Conn) {
			if n > 0 {
				node.mu.Lock()
				node.conns = append(node.conns, nil)
				last := len(node.conns) - 1
				node.mu.Unlock()
				node.serve(nc, last)
			}
		}, "connection ended before the answer to HELLO", Passing},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Dial(t.Context(), Config{Endpoint: Endpoint{Addr: peer(t, c.serve), Password: "hunter2"}})
			require.ErrorContains(t, err, c.says)
			require.Equal(t, c.outlook, OutlookOf(err), "%v", err)
		})
	}
	for _, line := range node.received() {
		require.NotContains(t, line, "hunter2", "no secret is sent by a second look (R27)")
	}
	require.NotEmpty(t, node.received())
}

// answersPing ends the connection at every other command.
func answersPing(_ int, nc net.Conn) {
	b := make([]byte, 512)
	for {
		n, err := nc.Read(b)
		if err != nil || !strings.Contains(string(b[:n]), "PING") {
			return
		}
		_, _ = io.WriteString(nc, "+PONG\r\n")
	}
}

// A rewound connection returns some bytes again.
type rewound struct {
	net.Conn
	again []byte
}

func (r *rewound) Read(p []byte) (int, error) {
	if len(r.again) > 0 {
		n := copy(p, r.again)
		r.again = r.again[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}
