package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// maxLine bounds a line. A resource has at most 1,024 bytes, its prefix not
// many more, and a byte may take six in JSON.
const maxLine = 64 << 10

// ErrCut is the last error of Read if the last line has no end, as after a kill
// of the process that wrote it. All earlier lines have been read.
var ErrCut = errors.New("history: the last line is cut")

// Read reads a history. An error contains the number of its line; it comes
// without an event and ends the sequence.
func Read(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		lines := bufio.NewReaderSize(r, maxLine)
		for number := 1; ; number++ {
			line, err := lines.ReadSlice('\n')
			if err == io.EOF && len(line) == 0 {
				return
			}
			var e Event
			switch err {
			case nil:
				e, err = parse(line)
			case io.EOF:
				err = ErrCut
			case bufio.ErrBufferFull:
				err = fmt.Errorf("longer than %d bytes", maxLine)
			}
			if err != nil {
				yield(Event{}, fmt.Errorf("history: line %d: %w", number, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Open is Read for a file. It opens the file when the iteration begins and
// closes it when that ends.
func Open(name string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		file, err := os.Open(name)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer file.Close()
		Read(file)(yield)
	}
}

// parse parses one line. It ignores unknown members: a later version may have
// more.
func parse(line []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, err
	}
	kind, ok := kinds[string(e.Ev)]
	if !ok {
		return Event{}, fmt.Errorf("no event is called %.20q", e.Ev)
	}
	if e.Form, ok = forms[string(e.Form)]; !ok {
		return Event{}, errors.New("no lock has such a form")
	}
	e.Ev = kind
	return e, nil
}
