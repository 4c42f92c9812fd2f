package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"syscall"

	"github.com/redmux/redmux/resp"
)

// An Outlook says whether what keeps a node away may pass by itself (R31).
type Outlook uint8

const (
	// Lasting means that something must be changed: waiting does not help.
	Lasting Outlook = iota
	// Brief means that the cause belongs to a failover, a restart or a
	// replacement of files, all over within a minute. If it stays, it is
	// lasting.
	Brief
	// Passing means that the cause may pass by itself, at any time.
	Passing
)

// outlooks are the classes of errors that are not lasting.
var outlooks = map[Class]Outlook{
	ClassLoading: Passing, ClassBusy: Passing, ClassMasterDown: Passing, ClassClusterDown: Passing, ClassTryAgain: Passing,
	ClassMisconf: Passing, ClassNoReplicas: Passing, ClassOOM: Passing, ClassMaxClients: Passing, ClassUnavailable: Passing,
	ClassReadOnly: Brief, ClassNoScript: Brief,
}

// Outlook returns what is to be expected of a node that replies errors of the
// class. It is [Lasting] for every class that is not known to pass.
func (c Class) Outlook() Outlook { return outlooks[c] }

// OutlookOf returns what is to be expected of a node whose connection, or an
// attempt to make one, ended with err, an error of this package. An error reply
// is judged by its class. A connection lost, refused or timed out may come
// back. Everything else from a node is lasting.
func OutlookOf(err error) Outlook {
	if errors.Is(err, ErrCredentials) {
		return outlookOfCredentials(err)
	}
	if class := ErrorClass(err); class != ClassNone {
		return class.Outlook()
	}
	var outer *Error
	switch {
	case IsTLS(err):
		return outlookOfTLS(err)
	case has[*StepError](err), has[*PeerError](err), has[*resp.SyntaxError](err), errors.Is(err, ErrProtocol), errors.Is(err, ErrProxy):
		return Lasting
	case errors.As(err, &outer) && outer.Op == "dial":
		return outlookOfDial(err)
	case outer != nil, isLost(err):
		return Passing
	}
	return Lasting
}

// outlookOfCredentials judges an error of Config.Credentials. A file may be
// about to be replaced, and what issues tokens may be away.
func outlookOfCredentials(err error) Outlook {
	if isLost(err) {
		return Passing
	}
	return Brief
}

// has reports whether an error of type T is in err's chain.
func has[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

// isLost reports whether an error is the end of a connection or of a context,
// and no word of the peer's.
func isLost(err error) bool {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() || has[syscall.Errno](err) && !isAlert(err) {
		return true
	}
	return slices.ContainsFunc([]error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, os.ErrDeadlineExceeded, context.Canceled, context.DeadlineExceeded,
	}, func(end error) bool { return errors.Is(err, end) })
}

// outlookOfDial judges why no connection was made. A NetDial may return any
// error, and most are passing: the network, the host or the listener is away.
func outlookOfDial(err error) Outlook {
	var name *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return Brief // the name of a container is there while the container is
	case has[*net.AddrError](err), has[net.UnknownNetworkError](err), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EAFNOSUPPORT):
		return Lasting // no such address
	case errors.As(err, &op) && op.Net == "unix" && errors.Is(err, fs.ErrPermission):
		return Lasting
	}
	return Passing
}

// A secureError is an end of TLS's handshake that is no loss of the connection.
type secureError struct{ error }

// Unwrap returns the cause.
func (e *secureError) Unwrap() error { return e.error }

// A filesError is returned if a file of TLSFiles cannot be used. Dial met it
// when it was replaced, perhaps. Its text names the parameter of the URL.
type filesError struct{ error }

// Unwrap returns the cause.
func (e *filesError) Unwrap() error { return e.error }

// IsTLS reports whether an attempt to connect failed over TLS, between the two
// sides: a certificate, a version, a file.
func IsTLS(err error) bool {
	// A NetDial may have verified a certificate, too.
	return has[*secureError](err) || has[*filesError](err) || has[*tls.CertificateVerificationError](err) || isAlert(err)
}

// isAlert reports whether err has an alert of TLS that one side sent.
// crypto/tls has no type for it.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
}

// passingAlert is what a peer says that fails itself: "internal error".
const passingAlert = tls.AlertError(80)

func outlookOfTLS(err error) Outlook {
	var op *net.OpError
	switch {
	case has[*filesError](err):
		return Brief
	case errors.As(err, &op) && op.Op == "remote error" && op.Err.Error() == passingAlert.Error():
		return Passing
	}
	return Lasting
}
