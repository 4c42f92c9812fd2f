package history

import (
	"bufio"
	"errors"
	"io"
	"os"
	"sync"
)

// A Writer writes events as lines, through a large buffer. It is safe for
// concurrent use, and its methods allocate nothing. Lines of one goroutine are
// in the order of its calls; those of several are put in order by their times
// when they are read.
//
// An error of writing is kept and returned by Close; nothing is written after
// it.
type Writer struct {
	clock Clock
	file  io.Closer // nil if the caller owns it

	mu      sync.Mutex // guards the following
	w       *bufio.Writer
	scratch []byte // of the current line
	closed  bool
}

// bufferSize is large, so that callers rarely wait for a file.
const bufferSize = 1 << 20

// Create replaces the file of that name. Its lines are written a megabyte at a
// time.
func Create(name string) (*Writer, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	w := NewWriter(file)
	w.file = file
	return w, nil
}

// NewWriter writes to the given writer.
func NewWriter(to io.Writer) *Writer {
	return &Writer{clock: NewClock(), w: bufio.NewWriterSize(to, bufferSize)}
}

// Clock returns a clock for the times of events.
func (w *Writer) Clock() Clock { return w.clock }

// Add writes an event.
func (w *Writer) Add(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scratch = e.AppendLine(w.scratch[:0])
	w.putLocked(w.scratch)
}

// AddLine writes a line that AppendLine encoded into the caller's own buffer,
// which it does not keep. With it, only the writing happens under the lock.
func (w *Writer) AddLine(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.putLocked(line)
}

func (w *Writer) putLocked(line []byte) {
	if !w.closed {
		_, _ = w.w.Write(line) // the buffer keeps an error until Close
	}
}

// Close writes what is buffered, closes the file if Create opened it, and
// reports whether all could be written. Events recorded afterwards are dropped.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	err := w.w.Flush()
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
	}
	return err
}
