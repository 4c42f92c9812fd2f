package conn

import (
	"errors"
	"io"
	"sync"
)

// scriptLink is a link in memory that a test controls: how many bytes it takes
// before a write waits, what can be read and in which pieces, and how it ends.
// It is for simulated time: a waiting goroutine waits on a condition.
type scriptLink struct {
	mu      sync.Mutex // guards the following
	changed *sync.Cond
	in      []byte // to be read
	piece   int    // the most bytes of one Read
	endWith error  // the error after in, returned with its last bytes if joined is set
	joined  bool
	window  int    // bytes that are accepted before a write waits
	out     []byte // written, but not yet read by the peer
	refuse  error  // the error of the next write
	refused bool   // a write has failed with refuse
	closed  bool
	aborted bool
	shuts   int
	frees   int
	readers int // Reads in progress; more than one is a fault
	writers int
	fault   string // how the rules of the interface were broken
}

func newScriptLink(window int) *scriptLink {
	l := &scriptLink{window: window, piece: 1 << 20}
	l.changed = sync.NewCond(&l.mu)
	return l
}

var errLinkClosed = errors.New("link is closed")

// change makes a change that may wake waiting goroutines.
func (l *scriptLink) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.changed.Broadcast()
}

func (l *scriptLink) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers++; l.readers > 1 {
		l.fault = "two Reads at once"
	}
	defer func() { l.readers-- }()
	for {
		switch {
		case l.closed:
			return 0, errLinkClosed
		case len(l.in) > 0:
			n := copy(p, l.in[:min(len(l.in), l.piece)])
			l.in = l.in[n:]
			if len(l.in) == 0 && l.joined {
				return n, l.endWith
			}
			return n, nil
		case l.endWith != nil:
			return 0, l.endWith
		}
		l.changed.Wait()
	}
}

func (l *scriptLink) Write(p []byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writers++; l.writers > 1 {
		l.fault = "two Writes at once"
	}
	defer func() { l.writers-- }()
	for {
		m, err := l.take(p[n:])
		if n += m; err != nil || n == len(p) {
			return n, err
		}
		l.changed.Wait()
	}
}

func (l *scriptLink) tryWrite(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writers > 0 {
		l.fault = "tryWrite while a Write is under way"
	}
	return l.take(p)
}

// take accepts as many bytes as the window has room for. The caller must hold
// the mutex.
func (l *scriptLink) take(p []byte) (int, error) {
	switch {
	case l.closed:
		return 0, errLinkClosed
	case l.refuse != nil && len(p) > 0:
		l.refused = true
		return 0, l.refuse
	}
	n := min(len(p), max(0, l.window-len(l.out)))
	l.out = append(l.out, p[:n]...)
	return n, nil
}

func (l *scriptLink) unread() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0
	}
	return len(l.in)
}

func (l *scriptLink) shut(abort bool) error {
	l.change(func() {
		l.closed, l.aborted = true, abort
		l.shuts++
	})
	return nil
}

func (l *scriptLink) free() {
	l.change(func() {
		l.frees++
		if l.readers > 0 || l.writers > 0 || !l.closed {
			l.fault = "freed while in use"
		}
	})
}

// peerTakes reads at most n bytes as the peer.
func (l *scriptLink) peerTakes(n int) (taken []byte) {
	l.change(func() {
		n = min(n, len(l.out))
		taken = append(taken, l.out[:n]...)
		l.out = append([]byte(nil), l.out[n:]...)
	})
	return taken
}

var _ io.Reader = (*scriptLink)(nil)
