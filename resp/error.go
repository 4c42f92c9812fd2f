package resp

import (
	"strconv"
	"strings"
)

// SyntaxError is returned by Reader.Next when the bytes received are not RESP,
// or exceed a limit. The connection that they came from must be closed (R16).
type SyntaxError struct {
	// Offset is the number of bytes from the beginning of the stream (or from
	// Reset) to the type byte of the wrong value, the innermost if values are
	// nested.
	Offset int64

	// Reason says which rule was broken. It quotes at most one byte of the
	// stream, so it may be logged.
	Reason string
}

// Error returns the reason and where it was found.
func (e *SyntaxError) Error() string {
	return "resp: " + e.Reason + " at byte " + strconv.FormatInt(e.Offset, 10)
}

// Error is an error reply of a server: a simple or a bulk error.
type Error struct {
	// Message is the whole text with its prefix. Servers quote arguments in
	// some of their messages, so it may contain keys and tokens.
	Message string
}

// Error returns the redacted message.
func (e *Error) Error() string { return "resp: server error: " + e.Redacted() }

// Redacted returns the message without the arguments that a server quotes in it
// (R27), as in "unknown command 'x', with args beginning with: 'a' 'b'".
func (e *Error) Redacted() string {
	text, _, _ := strings.Cut(e.Message, ", with args beginning")
	return text
}

// Prefix returns the first word of the message, such as "NOSCRIPT", or "ERR" if
// that word is no prefix. See [Value.ErrorPrefix].
func (e *Error) Prefix() string {
	if n := prefixLen(e.Message); n > 0 {
		return e.Message[:n]
	}
	return "ERR"
}

// maxPrefix bounds an error's prefix. The longest in use has half as many
// bytes.
const maxPrefix = 32

// prefixLen returns the length of the upper-case word that begins message, or 0
// if there is none.
func prefixLen[S ~string | ~[]byte](message S) int {
	n := 0
	for n < len(message) && n < maxPrefix && isPrefixByte(message[n]) {
		n++
	}
	if n < len(message) && message[n] != ' ' {
		return 0
	}
	return n
}

func isPrefixByte(c byte) bool {
	return 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}
