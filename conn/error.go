package conn

import (
	"errors"
	"strings"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/resp"
)

var (
	// ErrStalled is the cause of a connection broken because its backlog is over
	// its bound: the node does not read what is written to it (R26).
	ErrStalled = errors.New("node does not read: backlog is full")
	// ErrClosed is the cause of a connection that its owner closed.
	ErrClosed = errors.New("connection is closed")
	// ErrProtocol is a reply that cannot answer its command, one that answers no
	// command, or a push that nobody asked for (R16).
	ErrProtocol = errors.New("protocol violated")
)

// Error is what a connection died of, or why it never came to be. Every error of
// this package's connections is one.
type Error struct {
	Op   string // "dial", "handshake", "read", "parse", "write", "exchange", "break", "close"
	Addr string // as Endpoint.String has it
	Err  error
}

// Error names what was done, to which address, and the cause.
func (e *Error) Error() string { return "conn: " + e.Op + " " + e.Addr + ": " + errtext.Text(e.Err) }

// Cause returns the text of the cause, for where the address is named already.
func (e *Error) Cause() string {
	switch e.Op {
	case "read", "write":
		return "connection lost: " + errtext.Text(e.Err)
	}
	return errtext.Text(e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// StepError says which command of the handshake failed. Where the node refused
// it, Err unwraps to the *resp.Error.
type StepError struct {
	Step    string // the command's name, "HELLO", "SELECT", "CLIENT INFO" …, or Step.Name
	Prelude int    // its index in Config.Prelude; -1 for the commands of the handshake itself
	Class   Class  // of the node's error; ClassNone when the reply was none
	Err     error
}

// Error names the command and the cause: where the node refused it, the node's
// own words, which begin with the class of the refusal.
func (e *StepError) Error() string {
	switch e.Class {
	case ClassNone:
		return e.Step + ": " + errtext.Text(e.Err)
	case ClassMaxClients:
		return "node has too many clients: " + errtext.Text(e.Err)
	}
	return e.Step + " refused: " + errtext.Text(e.Err)
}

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// PeerError says that whoever listens at the address does not speak RESP, or not
// in the way that was expected.
type PeerError struct {
	Speaks string // "HTTP", "TLS", "SSH", "RESP without TLS"; "" when it cannot be told
	Err    error
}

// Error names the protocol where it is known: as a rule it tells which port was meant.
func (e *PeerError) Error() string {
	if e.Speaks == "" {
		return "peer does not speak RESP: " + errtext.Text(e.Err)
	}
	return "peer speaks " + e.Speaks + e.advice() + ": " + errtext.Text(e.Err)
}

// Unwrap returns the cause.
func (e *PeerError) Unwrap() error { return e.Err }

// advice says what to change, where that is known.
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

// speaks guesses a protocol from the first bytes of an answer that is no RESP.
func speaks(first []byte) string {
	switch s := string(first); {
	case strings.HasPrefix(s, "HTTP/"):
		return "HTTP"
	case strings.HasPrefix(s, "SSH-"):
		return "SSH"
	case len(s) >= 2 && (s[0] == 0x15 || s[0] == 0x16) && s[1] == 3: // alert or handshake, RFC 8446 5.1
		return speaksTLS
	}
	return ""
}

// maxMessage bounds a server's error text as it appears in ours.
const maxMessage = 200

// scrub makes a server's error text fit to be shown (R27): the password is
// replaced, and each word that is the user's name, or begins as keys do; what an
// "unknown command" quotes of its arguments is cut off (they are keys, tokens
// and, for HELLO, the password); and what remains is at most 200 bytes of
// printable ASCII.
func scrub(message, password, username, keys string) string {
	// All are made printable first: a server may do so with what it quotes.
	message = conceal(printable(message), printable(password))
	message = concealWords(message, printable(username), printable(keys))
	if i := strings.Index(message, "with args beginning"); i >= 0 {
		message = strings.TrimRight(message[:i], ", ")
	}
	return message[:min(len(message), maxMessage)]
}

// concealWords replaces words, but for the first, which is the error's class.
func concealWords(message, username, keys string) string {
	if username == "" && keys == "" {
		return message
	}
	var b strings.Builder
	begun := 0 // of the word at hand
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

// wordEnds are what stands around the words that a server quotes.
const wordEnds = " '`\""

func conceal(message, password string) string {
	if password == "" {
		return message
	}
	return strings.ReplaceAll(message, password, "***")
}

// printable replaces each byte that is not printable ASCII.
func printable(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

// serverError returns v's error with its text scrubbed, or nil if v is no error.
func serverError(v resp.Value, password, username, keys string) error {
	if !v.IsError() {
		return nil
	}
	return &resp.Error{Message: scrub(string(v.Bytes()), password, username, keys)}
}
