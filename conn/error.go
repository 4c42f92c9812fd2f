package conn

import (
	"errors"
	"strings"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
)

var (
	// ErrStalled is in an error's chain if the backlog exceeds its bound: the
	// node does not read what is written to it (R26).
	ErrStalled = errors.New("node does not read: backlog is full")
	// ErrClosed is in an error's chain if this side closed the connection.
	ErrClosed = errors.New("connection is closed")
	// ErrProtocol is in the chain of an error about a reply that cannot
	// answer its command, a reply to no command, or a push without a
	// request (R16).
	ErrProtocol = errors.New("protocol violated")
)

// Error is returned when a connection cannot be made or is broken. Every error
// of Dial and of a Conn's methods is one.
type Error struct {
	// Op is what was done: "dial", "handshake", "read", "parse", "write",
	// "exchange", "break" or "close".
	Op   string
	Addr string // as Endpoint.String returns it
	Err  error  // the cause
}

// Error returns the operation, the address and the cause.
func (e *Error) Error() string {
	must(e != nil, noError)
	return "conn: " + e.Op + " " + e.Addr + ": " + e.said()
}

// said returns the text of the cause. The peer may have a part in it:
// crypto/tls quotes the names of a certificate as they are.
func (e *Error) said() string { return errtext.Printable(errtext.Text(e.Err)) }

// Cause returns the text of the cause, for messages that already name the
// address.
func (e *Error) Cause() string {
	must(e != nil, noError)
	switch e.Op {
	case "read", "write":
		return "connection lost: " + e.said()
	}
	return e.said()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	must(e != nil, noError)
	return e.Err
}

// StepError is returned by Dial when a command of the handshake fails. If the
// node refused it, Err unwraps to the *resp.Error.
type StepError struct {
	Step  string // the command, such as "HELLO" or "CLIENT INFO", or Step.Name
	Class Class  // of the node's error; ClassNone if the reply was no error
	Err   error  // what the node replied, or what is wrong with that
}

// Error returns the command and the cause. For a command that the node refused,
// that is the node's own text. It begins with the class of the refusal.
func (e *StepError) Error() string {
	must(e != nil, noError)
	switch e.Class {
	case ClassNone:
		return e.Step + ": " + errtext.Text(e.Err)
	case ClassMaxClients:
		return "node has too many clients: " + errtext.Text(e.Err)
	}
	return e.Step + " refused: " + errtext.Text(e.Err)
}

// Unwrap returns the cause.
func (e *StepError) Unwrap() error {
	must(e != nil, noError)
	return e.Err
}

// PeerError is returned by Dial when the peer does not speak RESP, or speaks it
// with TLS where plaintext was expected, or the reverse.
type PeerError struct {
	Speaks string // "HTTP", "SSH", "TLS" or "no TLS"; "" if unknown
	Err    error  // what showed it, such as a *resp.SyntaxError
}

// Error returns the protocol if it is known, and what to change.
func (e *PeerError) Error() string {
	must(e != nil, noError)
	if e.Speaks == "" {
		return "peer does not speak RESP: " + errtext.Text(e.Err)
	}
	return "peer speaks " + e.Speaks + e.advice() + ": " + errtext.Text(e.Err)
}

// Unwrap returns the cause.
func (e *PeerError) Unwrap() error {
	must(e != nil, noError)
	return e.Err
}

// advice returns what to change, if known.
func (e *PeerError) advice() string {
	switch e.Speaks {
	case speaksTLS:
		return " (use rediss://)"
	case speaksNoTLS:
		return " (use redis://, or the port that has TLS)"
	}
	return ""
}

const (
	speaksTLS   = "TLS"
	speaksNoTLS = "no TLS"
)

// speaks guesses a protocol from the first bytes of an answer that is not RESP.
func speaks(first []byte) string {
	switch s := string(first); {
	case strings.HasPrefix(s, "HTTP/"):
		return "HTTP"
	case strings.HasPrefix(s, "SSH-"):
		return "SSH"
	case len(s) >= 2 && (s[0] == 0x15 || s[0] == 0x16) && s[1] == 3:
		// An alert or a handshake (RFC 8446, 5.1).
		return speaksTLS
	}
	return ""
}

// secrets are what a node may quote and no error shows (R27).
type secrets struct {
	login
	prefix string
	// held is the login before that one, and goes on if that one is refused.
	held login
}

// A login is what authenticates a connection.
type login struct{ password, username string }

func (cfg *Config) secrets() secrets {
	return secrets{login: login{cfg.Password, cfg.Username}, prefix: cfg.Conceal}
}

// maxMessage bounds a server's error text within an error of this package.
const maxMessage = 200

// scrub makes a server's error text fit to be shown (R27). It replaces the
// password, and each word that is the user's name or begins with keys. It cuts
// off the arguments that an "unknown command" quotes: keys, tokens and, for
// HELLO, the password. At most 200 bytes of printable ASCII remain.
func scrub(message, password, username, keys string) string {
	message = (&resp.Error{Message: concealLogin(message, password, username, keys)}).Redacted()
	return message[:min(len(message), maxMessage)]
}

// concealLogin replaces a password, a user's name, and words that begin with
// keys. All are made printable first, as a server may do with what it quotes.
func concealLogin(message, password, username, keys string) string {
	message = conceal(errtext.Printable(message), errtext.Printable(password))
	return concealWords(message, errtext.Printable(username), errtext.Printable(keys))
}

// concealWords replaces words behind the first, which is the error's class.
func concealWords(message, username, keys string) string {
	if username == "" && keys == "" {
		return message
	}
	var b strings.Builder
	begun := 0 // where the current word begins
	flush := func(end int) {
		switch word := message[begun:end]; {
		case begun == 0 || strings.TrimRight(word, ",.:") == "":
			b.WriteString(word)
		case strings.TrimRight(word, ",.:") == username || keys != "" && strings.HasPrefix(word, keys):
			b.WriteString("***")
		default:
			b.WriteString(word)
		}
	}
	for i := range len(message) {
		if strings.IndexByte(wordEnds, message[i]) >= 0 {
			flush(i)
			b.WriteByte(message[i])
			begun = i + 1
		}
	}
	flush(len(message))
	return b.String()
}

// wordEnds are the bytes before and after words that a server quotes.
const wordEnds = " '`\""

func conceal(message, password string) string {
	if password == "" {
		return message
	}
	return strings.ReplaceAll(message, password, "***")
}

// serverError returns v's error with its text scrubbed, or nil if v is not one.
func serverError(v resp.Value, s secrets) error {
	if !v.IsError() {
		return nil
	}
	message := concealLogin(string(v.Bytes()), s.held.password, s.held.username, "")
	return &resp.Error{Message: scrub(message, s.password, s.username, s.prefix)}
}
