package errtext

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestText(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{Port: 1}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for want, err := range map[string]error{
		"EOF":                io.EOF,
		"lock is not held":   errors.New("redlock: lock is not held"),
		"no answer":          errors.New("multiplex: no answer"),
		"closed":             errors.New("conn: closed"),
		"ERR no":             errors.New("resp: server error: ERR no"),
		"bad byte":           errors.New("resp: bad byte"),
		"connection refused": refused,
	} {
		assert.Equal(t, want, Text(err))
	}
}

func TestNegative(t *testing.T) {
	assert.NoError(t, Negative("DB", 0))
	assert.NoError(t, Negative("Wait", time.Nanosecond))
	assert.EqualError(t, Negative("DB", -1), "DB is negative: -1")
	assert.EqualError(t, Negative("Wait", -time.Second), "Wait is negative: -1s")
}

func TestJoin(t *testing.T) {
	assert.NoError(t, Join(nil, nil))
	assert.Equal(t, io.EOF, Join(nil, io.EOF))
	err := Join(errors.New("redlock: lost"), nil, context.Canceled, errors.New("redlock: lock is not held"))
	assert.Equal(t, "redlock: lost; context canceled; lock is not held", err.Error())
	assert.ErrorIs(t, err, context.Canceled)
}

func TestWrap(t *testing.T) {
	err := Wrap("text", io.EOF, context.Canceled)
	assert.Equal(t, "text", err.Error())
	assert.ErrorIs(t, err, io.EOF)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "ERR no ~": "ERR no ~", "\x1b[2J": "?[2J", "a\r\nb": "a??b", "\x7f\x00": "??", "caf\u00e9": "caf??", "\u202eabc": "???abc", "\xff": "?",
	} {
		assert.Equal(t, want, Printable(text), "%q", text)
	}
	assert.Zero(t, testing.AllocsPerRun(10, func() { Printable("a text that needs no change") }))
}
