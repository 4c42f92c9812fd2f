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
