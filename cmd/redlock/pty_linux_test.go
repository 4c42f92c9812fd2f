package main

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A person is at the other end of a terminal: what is written to it is read, and what is typed arrives there.
type person struct {
	keyboard *os.File // ours
	terminal *os.File // the program's
	reading  sync.WaitGroup

	mu   sync.Mutex // guards the following
	seen bytes.Buffer
}

// sitDown opens a terminal, which is closed with the test.
func sitDown(t *testing.T) *person {
	t.Helper()
	// Not to be known to Go's poller: a read of it must be as a read of a terminal.
	ours, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	require.NoError(t, unix.IoctlSetPointerInt(ours, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(ours, unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	p := &person{keyboard: os.NewFile(uintptr(ours), "ptmx"), terminal: terminal}
	p.reading.Go(func() {
		part := make([]byte, 4096)
		for {
			n, err := p.keyboard.Read(part)
			p.mu.Lock()
			p.seen.Write(part[:n])
			p.mu.Unlock()
			if err != nil {
				return // the terminal was closed
			}
		}
	})
	t.Cleanup(func() {
		p.leave()
		p.reading.Wait()
		_ = p.keyboard.Close()
	})
	return p
}

// leave closes the program's end, whereupon ours ends, too.
func (p *person) leave() { _ = p.terminal.Close() }

func (p *person) types(t *testing.T, text string) {
	t.Helper()
	_, err := p.keyboard.WriteString(text)
	require.NoError(t, err)
}

// sees is all that was shown so far.
func (p *person) sees() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.String()
}
