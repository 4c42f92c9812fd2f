package resp

import (
	"io"
	"strconv"
)

// Limits bounds what a [Reader] accepts (R18). A value over a limit is a syntax
// error. A field that exceeds its own maximum counts as that maximum.
type Limits struct {
	// Line is the maximum number of bytes between a type byte and its CR LF.
	// If zero, 64 KiB. At most 1 GiB.
	Line int

	// Bulk is the maximum number of bytes in the payload of a bulk string, a
	// bulk error or a verbatim string. If zero, 1 MiB. At most 1 GiB.
	Bulk int

	// Elements is the maximum number of elements in one top-level value, at all
	// depths together; a pair counts as two. If zero, 1,048,576. At most 1 Gi.
	Elements int

	// Depth is the maximum number of aggregates around a value. An attribute
	// counts as one level, and consecutive attributes nest. If zero, 32. At
	// most 1,024.
	Depth int

	// Size is the maximum number of bytes in one top-level value with its
	// attributes. If zero, the larger of 4 MiB and four times Bulk. At most 1
	// GiB.
	Size int
}

// unlimited accepts every value that any Limits accept.
var unlimited = Limits{Line: maxLimit, Bulk: maxLimit, Elements: maxLimit, Depth: maxLimit, Size: maxLimit}

// maxLimit keeps every position in a value within an int32, with room to add.
const maxLimit = 1 << 30

func (l Limits) withDefaults() Limits {
	l.Line = withDefault(l.Line, 64<<10, maxLimit)
	l.Bulk = withDefault(l.Bulk, 1<<20, maxLimit)
	l.Elements = withDefault(l.Elements, 1<<20, maxLimit)
	l.Depth = withDefault(l.Depth, 32, 1024)
	l.Size = withDefault(l.Size, max(4<<20, 4*l.Bulk), maxLimit)
	return l
}

func withDefault(value, ifZero, most int) int {
	if value <= 0 {
		value = ifZero
	}
	return min(value, most)
}

const (
	// smallBuffer is enough for some 1,500 replies of "+OK".
	smallBuffer = 8 << 10

	// minSpace is the least room that Space returns.
	minSpace = 512

	// growth bounds the room that is made for bytes not yet received. Together
	// with the stack and what the allocator rounds up, it is below 64 KiB
	// (R18).
	growth = 40 << 10
)

// Reader turns a stream of bytes into values. Space and Commit, or Fill, push
// bytes in; Next takes values out. Only Fill may block, as its source does. A
// Reader is not safe for concurrent use.
//
// An error is sticky: nothing behind it is parsed, until Reset.
type Reader struct {
	limits  Limits
	oneLine int // the maximum number of bytes of a line that is a whole value

	// The buffer, and what its regions hold:
	//
	//	0        prev       next             next+scan       fill       len(buf)
	//	|  dead  |  viewed  |  part of a value, not yet returned  |  free  |
	//	                    |  lines and       |  bytes not yet   |
	//	                    |  payloads parsed |  parsed          |
	//
	//	0 ≤ prev ≤ next ≤ next+scan ≤ fill ≤ len(buf)
	//
	// Views point between prev and next only. They end when prev moves up to
	// next. The first seen bytes of the line at next+scan are known to hold
	// neither CR nor LF, unless head holds that line already.
	buf              []byte
	prev, next, fill int
	base             int64 // offset in the stream of buf[0]

	// The state of parsing the value at next, kept between calls so that no
	// byte is parsed twice. Positions are relative to next: the buffer may
	// slide.
	scan     int
	seen     int
	head     head    // the line at scan, if awaitsPayload
	at       int     // where the value's own line begins, behind its attributes
	n        int32   // that line's length or count
	elements int     // how many were announced so far
	stack    []frame // the open aggregates, the stream itself at the bottom

	err error
}

// frame is an aggregate with elements to come.
type frame struct {
	left      int32 // elements to come
	attrs     int16 // attributes that precede the next element
	attribute bool  // an attribute, which is no element of what holds it
}

// NewReader returns a Reader that accepts values within the limits.
func NewReader(limits Limits) *Reader {
	r := new(Reader)
	r.SetLimits(limits)
	r.buf = make([]byte, smallBuffer)
	r.stack = make([]frame, 1, 1+min(r.limits.Depth, 32))
	r.begin()
	return r
}

// Next returns the following value if all of it was received. If ok is false
// and err is nil, more bytes are needed. The error, a *SyntaxError, is sticky.
//
// Next ends the views of earlier values.
func (r *Reader) Next() (v Value, ok bool, err error) {
	r.takeBack()
	if r.err != nil {
		return Value{}, false, r.err
	}
	b := r.buf[r.next:r.fill]
	if r.scan == 0 && !r.awaitsPayload() {
		if len(b) >= len(okReply) && string(b[:len(okReply)]) == okReply && r.oneLine >= len("OK") {
			r.next += len(okReply)
			r.seen = 1
			return Value{raw: b[:len(okReply):len(okReply)]}, true, nil
		}
		// Most replies are not aggregates. If all of one was received, it needs
		// no state; anything else is parsed again below.
		h, f := parseHead(b, r.seen, r.oneLine, &r.limits)
		size := int(h.size) + h.payload()
		if f == sound && h.isLeaf() && size <= min(len(b), r.limits.Size) &&
			(size == int(h.size) || checkPayload(h.typ, b[h.size:size]) == sound) {
			r.next += size
			r.seen = 1
			return Value{raw: b[:size:size], n: h.n}, true, nil
		}
	}
	if f := r.parse(b); f != sound {
		if f == incomplete {
			return Value{}, false, nil
		}
		return Value{}, false, r.fail(f)
	}
	v = Value{raw: b[:r.scan:r.scan], at: int32(r.at), n: r.n}
	r.next += r.scan
	r.begin()
	return v, true, nil
}

// okReply is the most frequent reply: to a SET that was granted.
const okReply = "+OK\r\n"

// Space returns room to read into, which is never empty. The caller must report
// to Commit how much of it was filled. After an error those bytes are ignored.
//
// Space ends all views. It keeps the bytes that Next has not taken yet, up to
// Limits.Size; more of them are an error, which Next returns.
func (r *Reader) Space() []byte {
	r.takeBack()
	if r.next == r.fill {
		r.discard()
	}
	if len(r.buf)-r.fill < minSpace {
		r.makeRoom()
	}
	return r.buf[r.fill:len(r.buf):len(r.buf)]
}

// Commit takes over the first n bytes of the room that Space returned last. It
// panics if the room was smaller.
func (r *Reader) Commit(n int) {
	if n < 0 || n > len(r.buf)-r.fill {
		panic("resp: Commit of more than Space returned")
	}
	if r.err == nil {
		r.fill += n
	}
}

// Fill reads once from src into Space and commits what came. It blocks as long
// as src does. It ends all views.
func (r *Reader) Fill(src io.Reader) (int, error) {
	n, err := src.Read(r.Space())
	r.Commit(n)
	return n, err
}

// Buffered returns the number of bytes that were received and not yet returned
// as values. It is 0 after an error.
func (r *Reader) Buffered() int { return r.fill - r.next }

// Offset returns the position in the stream of the value that Next returns
// next.
func (r *Reader) Offset() int64 { return r.base + int64(r.next) }

// SetLimits changes the limits from the following value on. It must not be
// called while a part of a value is buffered.
func (r *Reader) SetLimits(limits Limits) {
	r.limits = limits.withDefaults()
	r.oneLine = min(r.limits.Line, r.limits.Size-len("_\r\n"))
}

// Reset drops all bytes and the error, and makes the Reader ready for another
// stream. It ends all views.
func (r *Reader) Reset() {
	r.takeBack()
	r.next = r.fill
	r.begin()
	r.discard()
	r.base, r.err = 0, nil
}

// awaitsPayload reports whether head is the line at scan, whose payload has not
// been received yet.
func (r *Reader) awaitsPayload() bool { return r.head.size > 0 }

// begin prepares for a new value at next.
func (r *Reader) begin() {
	r.scan, r.seen, r.at, r.elements = 0, 1, 0, 0
	r.head.size = 0
	r.stack = r.stack[:1]
	r.stack[0] = frame{left: 1}
}

// takeBack ends all views.
func (r *Reader) takeBack() {
	if poisoned {
		poison(r.buf[r.prev:r.next])
	}
	r.prev = r.next
}

// fail makes a fault of the line at scan the Reader's sticky error.
func (r *Reader) fail(f fault) error {
	e := &SyntaxError{Offset: r.base + int64(r.next+r.scan), Reason: reasons[f]}
	if f == badType {
		e.Reason += " " + strconv.QuoteRuneToASCII(rune(r.buf[r.next+r.scan]))
	}
	r.err = e
	r.next, r.prev = r.fill, r.fill
	r.begin()
	r.discard()
	return e
}

// discard empties the buffer.
func (r *Reader) discard() {
	r.base += int64(r.fill)
	r.prev, r.next, r.fill = 0, 0, 0
	if len(r.buf) > growth {
		// One large value must not keep its memory forever.
		r.buf = make([]byte, smallBuffer)
	}
}

// makeRoom slides or replaces the buffer to make room behind fill.
func (r *Reader) makeRoom() {
	held := r.fill - r.next
	if held > r.limits.Size+growth {
		// A single value cannot be the cause: Next would have refused it.
		r.fail(tooMuchUnread)
		return
	}
	buf := r.buf
	// Sliding fewer bytes than were consumed keeps the cost of all slides
	// linear, and leaves at least half the buffer free.
	if r.next < held || len(buf) > held+growth {
		buf = make([]byte, bufferFor(held))
	}
	copy(buf, r.buf[r.next:r.fill])
	r.buf = buf
	r.base += int64(r.next)
	r.prev, r.next, r.fill = 0, 0, held
}

// bufferFor returns the length of a buffer for the held bytes and more to come:
// twice as long while small, then longer by growth.
func bufferFor(held int) int {
	if held <= smallBuffer/2 {
		return smallBuffer
	}
	return held + min(held, growth)
}

// parse continues in b, the bytes from next on, where it stopped before. It
// returns sound once a value is complete, which then has scan bytes.
func (r *Reader) parse(b []byte) fault {
	for {
		h, f := r.head, sound
		if !r.awaitsPayload() {
			if h, f = r.parseLine(b); f != sound {
				return f
			}
		}
		end := r.scan + int(h.size)
		if n := h.payload(); n > 0 {
			if len(b) < end+n {
				r.head = h
				return incomplete
			}
			if f = checkPayload(h.typ, b[end:end+n]); f != sound {
				return f
			}
			end += n
		}
		r.scan, r.seen, r.head.size = end, 1, 0
		if r.closes(h) {
			return sound
		}
	}
}

// parseLine parses the line at scan, and checks the limits and that the value
// may be where it is.
func (r *Reader) parseLine(b []byte) (head, fault) {
	room := r.limits.Size - r.scan - len("_\r\n")
	if room < 0 && len(b) > r.scan {
		return head{}, tooLarge
	}
	h, f := parseHead(b[r.scan:], r.seen, min(r.limits.Line, room), &r.limits)
	switch {
	case f == incomplete:
		r.seen = int(h.size)
		return head{}, incomplete
	case f == longLine && room < r.limits.Line:
		return head{}, tooLarge
	case f != sound:
		return head{}, f
	}
	if r.scan+int(h.size)+h.payload() > r.limits.Size {
		return head{}, tooLarge
	}
	if len(r.stack) == 1 {
		// The value's own line comes last, behind those of its attributes.
		r.at, r.n = r.scan, h.n
	} else if h.typ == Push {
		// "Push data may precede or follow any of RESP's data types, but never
		// inside them": protocol specification, Pushes.
		return head{}, badPush
	}
	if h.typ.form() == formAggregate && h.n >= 0 {
		f = r.countAggregate(h)
	}
	return h, f
}

// countAggregate checks the limits of elements and depth.
func (r *Reader) countAggregate(h head) fault {
	if r.elements += int(h.n); r.elements > r.limits.Elements {
		return manyElements
	}
	depth := len(r.stack)
	if h.typ == Attribute {
		around := &r.stack[depth-1]
		depth += int(around.attrs)
		around.attrs++
	}
	if depth > r.limits.Depth {
		return tooDeep
	}
	return sound
}

// closes opens the aggregate that h begins, or counts the value that h ends,
// and reports whether the top-level value is complete.
func (r *Reader) closes(h head) bool {
	if h.elements() > 0 {
		r.stack = append(r.stack, frame{left: h.n, attribute: h.typ == Attribute})
		return false
	}
	isAttribute := h.typ == Attribute
	for {
		top := &r.stack[len(r.stack)-1]
		if isAttribute {
			return false // its value follows
		}
		top.left--
		top.attrs = 0
		if top.left > 0 {
			return false
		}
		if len(r.stack) == 1 {
			return true
		}
		isAttribute = top.attribute
		r.stack = r.stack[:len(r.stack)-1]
	}
}
