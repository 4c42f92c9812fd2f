package member

import (
	"fmt"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// Questions are commands for one node, and what takes the reply to each.
type Questions struct {
	Commands [][]byte
	judges   []func(v resp.Value) error
	then     func() error // after the last reply; nil for nothing
}

// Add adds a command. Without the mutex, judge gets its reply.
func (q *Questions) Add(command []byte, judge func(v resp.Value) error) {
	q.Commands = append(q.Commands, command)
	q.judges = append(q.judges, judge)
}

// Answer takes the reply to a command, without the mutex. An error ends the
// connection (R16).
func (q *Questions) Answer(i int, v resp.Value) error {
	if err := q.judges[i](v); err != nil || i != len(q.judges)-1 || q.then == nil {
		return err
	}
	return q.then()
}

// said is the reply of a script to write a key.
type said uint8

const (
	saidError said = iota
	saidNo         // what is there forbids it
	saidDone
	saidText
)

// write sends a command with such a script. took gets the reply, with the
// mutex. A node without the script gets it again. lost and the result are those
// of Host.Ask.
func (m *Members) write(i int, what string, command []byte, took func(said, resp.Value) error, lost func()) bool {
	return m.host.Ask(i, [][]byte{command}, func(_ int, v resp.Value) error {
		m.host.Lock()
		defer m.host.Unlock()
		count, ok := v.Int64()
		switch {
		case ok && count == 1:
			return took(saidDone, v)
		case ok && count == 0:
			return took(saidNo, v)
		case isText(v):
			return took(saidText, v)
		case !v.IsError():
			return unexpected(v, what, nil)
		case conn.ClassOf(v) == conn.ClassNoScript:
			m.cure(i)
		}
		return took(saidError, v)
	}, lost)
}

func isText(v resp.Value) bool { return v.Type() == resp.BulkString && !v.IsNull() }

// cure loads the script to write the seal again. The next look comes soon.
func (m *Members) cure(i int) {
	if m.host.Cure(i) {
		m.hasten(i)
	}
}

// hasten makes the next look come soon.
func (m *Members) hasten(i int) {
	n := &m.nodes[i]
	n.looks.Hasten(m.host.Now())
	m.host.Wake(n.looks.Next)
}

// unexpected returns the error of a reply unfit for its command (R16).
func unexpected(v resp.Value, what string, why error) error {
	if why != nil {
		return fmt.Errorf("%w to %s: %w", ErrUnexpected, what, why)
	}
	return fmt.Errorf("%w: type %q to %s", ErrUnexpected, v.Type(), what)
}

// valueOf parses the reply to a read of a key.
func valueOf(v resp.Value) (found pure.Seen, text string, err error) {
	switch {
	case conn.ClassOf(v) == conn.ClassWrongType:
		return pure.SealStrange, "", nil
	case v.IsError():
		return pure.Unreadable, "", nil
	case isText(v):
		return pure.SealSeen, string(v.Bytes()[:min(len(v.Bytes()), maxSeal)]), nil
	case v.IsNull() && v.Type() != resp.Array:
		return pure.SealAbsent, "", nil
	}
	return 0, "", unexpected(v, "a look at the seal", nil)
}

// maxSeal is longer than any seal. Sixteen members take 272 bytes of a seal.
const maxSeal = 1024
