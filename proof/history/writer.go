package history

import (
	"bufio"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// A Writer writes events as lines. It is safe for concurrent use, and its
// methods allocate nothing. Lines of one goroutine are in the order of its
// calls; those of several are put in order by their times when they are read.
//
// An error of writing is kept and returned by Close; nothing is written after
// it.
type Writer struct {
	clock Clock
	file  io.Closer // nil if the caller owns it

	mu      sync.Mutex // guards the following
	w       *bufio.Writer
	scratch []byte // of the current line
	each    bool   // write every line at once
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
	w := NewWriter(file, true)
	w.file = file
	return w, nil
}

// NewWriter writes to the given writer. Without a buffer every line is one call
// of Write, before the call that recorded it returns: then no event is lost if
// the process is killed.
func NewWriter(to io.Writer, buffered bool) *Writer {
	return &Writer{clock: NewClock(), w: bufio.NewWriterSize(to, bufferSize), each: !buffered}
}

// Clock returns the clock of Note.
func (w *Writer) Clock() Clock { return w.clock }

// Note writes an event of this moment. It digests the token, which may be nil.
// Until may be zero.
func (w *Writer) Note(kind Kind, client int, resource string, attempt uint64, token []byte, until time.Time) {
	w.NoteAt(w.clock.Now(), kind, client, resource, attempt, token, until)
}

// NoteAt is Note for a time that was read before: the time of a grant is that
// of the call's return, not that of the note.
func (w *Writer) NoteAt(t int64, kind Kind, client int, resource string, attempt uint64, token []byte, until time.Time) {
	e := Event{T: t, Client: client, Resource: resource, Attempt: attempt, Ev: kind}
	if !until.IsZero() {
		e.Until = w.clock.At(until)
	}
	var digits [2 * digestBytes]byte
	if token != nil {
		digits = Digest(token)
		e.Token = string(digits[:])
	}
	w.Add(e)
}

// Add writes an event.
func (w *Writer) Add(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scratch = e.AppendLine(w.scratch[:0])
	w.put(w.scratch)
}

// AddLine writes a line that AppendLine encoded into the caller's own buffer,
// which it does not keep. With it, only the writing happens under the lock.
func (w *Writer) AddLine(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(line)
}

// put writes a line. The caller must hold the lock.
func (w *Writer) put(line []byte) {
	if w.closed {
		return
	}
	_, _ = w.w.Write(line) // the buffer keeps an error until Close
	if w.each {
		_ = w.w.Flush()
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
