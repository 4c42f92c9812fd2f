package resp

import (
	"io"
	"strconv"
)

// Limits bounds what a [Reader] accepts (R18). What exceeds a limit is a syntax
// error. Values above a field's largest are cut to it.
type Limits struct {
	// Line is the most bytes between a type byte and its CR LF.
	// If zero, 64 KiB. At most 1 GiB.
	Line int

	// Bulk is the most bytes of a bulk string's payload, a bulk error's or a
	// verbatim string's. If zero, 1 MiB. At most 1 GiB.
	Bulk int

	// Elements is the most elements within one top-level value, all depths
	// together; a pair counts as two. If zero, 1,048,576. At most 1 Gi.
	Elements int

	// Depth is the most aggregates around a value. An attribute lies as deep as
	// an aggregate in the place of its value would; one that follows another
	// directly lies deeper by one. If zero, 32. At most 1,024.
	Depth int

	// Size is the most bytes of one top-level value with its attributes.
	// If zero, 4 MiB or four times Bulk, whichever is more. At most 1 GiB.
	Size int
}

// unlimited accepts everything that was accepted before.
var unlimited = Limits{Line: most, Bulk: most, Elements: most, Depth: most, Size: most}

// most keeps every position in a value within an int32, with room to add.
const most = 1 << 30

func (l Limits) withDefaults() Limits {
	l.Line = limit(l.Line, 64<<10, most)
	l.Bulk = limit(l.Bulk, 1<<20, most)
	l.Elements = limit(l.Elements, 1<<20, most)
	l.Depth = limit(l.Depth, 32, 1024)
	l.Size = limit(l.Size, max(4<<20, 4*l.Bulk), most)
	return l
}

func limit(value, ifZero, most int) int {
	if value <= 0 {
		value = ifZero
	}
	return min(value, most)
}

const (
	// smallBuffer is enough for some 1,500 replies of "+OK".
	smallBuffer = 8 << 10

	// minSpace is the least room that is worth a read.
	minSpace = 512

	// growth bounds the room that is made for bytes not yet received. With it
	// go the stack and what the allocator rounds up: together below 64 KiB (R18).
	growth = 40 << 10
)

// Reader turns a stream of bytes into values. Bytes are pushed in with Space and
// Commit, or with Fill; Next takes values out. It knows no socket and never waits.
// It is not safe for use by several goroutines at once.
//
// An error is sticky: nothing behind it is parsed, until Reset.
type Reader struct {
	limits  Limits
	oneLine int // the most bytes of a line that is a whole value

	// The buffer, and what its regions hold:
	//
	//	0        prev       next             next+scan       fill       len(buf)
	//	|  dead  |  viewed  |  part of a value, not yet returned  |  free  |
	//	                    |  lines and       |  bytes nobody    |
	//	                    |  payloads judged |  has looked at   |
	//
	//	0 ≤ prev ≤ next ≤ next+scan ≤ fill ≤ len(buf)
	//
	// Views point between prev and next only. They end when prev moves up to
	// next. Of the line at next+scan, seen bytes are known to hold neither CR nor
	// LF, unless head holds that line already.
	buf              []byte
	prev, next, fill int
	base             int64 // offset in the stream of buf[0]

	// How far the value at next was judged, kept over calls, so that no byte is
	// looked at twice. Positions are relative to next: the buffer may slide.
	scan     int
	seen     int
	head     head    // the line at scan, when its payload is awaited; size 0 when it is not
	at       int     // where the value's own line begins, behind its attributes
	n        int32   // that line's length or count
	elements int     // how many were announced so far
	stack    []frame // the open aggregates, the stream itself at the bottom

	err error
}

// frame is an aggregate whose elements are not yet complete.
type frame struct {
	left      int32 // elements to come
	attrs     int16 // attributes that stand before the next element
	attribute bool  // the aggregate is no element itself
}

// NewReader returns a Reader that accepts what is within the limits.
func NewReader(limits Limits) *Reader {
	r := new(Reader)
	r.SetLimits(limits)
	r.buf = make([]byte, smallBuffer)
	r.stack = make([]frame, 1, 1+min(r.limits.Depth, 32))
	r.begin()
	return r
}

// Next returns the following value if all of it was received. If ok is false and
// err is nil, more bytes are needed. The error, a *SyntaxError, is sticky.
//
// Next ends the life of the views of the value before.
func (r *Reader) Next() (v Value, ok bool, err error) {
	r.takeBack()
	if r.err != nil {
		return Value{}, false, r.err
	}
	b := r.buf[r.next:r.fill]
	if r.scan == 0 && r.head.size == 0 {
		// Most replies are no aggregates. Such a one, if all of it is here, needs
		// none of the state below; whatever else it may be is judged again.
		h, f := parseHead(b, r.seen, r.oneLine, &r.limits)
		size := int(h.size) + h.payload()
		if f == sound && h.isLeaf() && size <= min(len(b), r.limits.Size) &&
			(size == int(h.size) || checkPayload(h.typ, b[h.size:size]) == sound) {
			r.next += size
			r.seen = 1
			return Value{raw: b[:size:size], n: h.n}, true, nil
		}
	}
	if f := r.judge(b); f != sound {
		if f == short {
			return Value{}, false, nil
		}
		return Value{}, false, r.fail(f)
	}
	v = Value{raw: b[:r.scan:r.scan], at: int32(r.at), n: r.n}
	r.next += r.scan
	r.begin()
	return v, true, nil
}

// Space returns room to read into, never empty; Commit says how much of it was
// filled. After an error the room leads nowhere.
//
// Space ends the life of all views. Bytes that Next was not asked for are kept, up
// to Limits.Size; beyond that they are an error that shows at Next.
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

// Commit takes over the first n bytes of what Space returned last.
func (r *Reader) Commit(n int) {
	if n < 0 || n > len(r.buf)-r.fill {
		panic("resp: Commit of more than Space returned")
	}
	if r.err == nil {
		r.fill += n
	}
}

// Fill reads once from src into Space and commits what came. It waits as long as
// src does. It ends the life of all views.
func (r *Reader) Fill(src io.Reader) (int, error) {
	n, err := src.Read(r.Space())
	r.Commit(n)
	return n, err
}

// Buffered returns how many bytes were received and not yet returned as values;
// 0 after an error.
func (r *Reader) Buffered() int { return r.fill - r.next }

// Offset returns how many bytes of the stream stand before the value that Next
// returns next.
func (r *Reader) Offset() int64 { return r.base + int64(r.next) }

// SetLimits changes what is accepted from the following value on. It must not be
// called while a part of a value is buffered.
func (r *Reader) SetLimits(limits Limits) {
	r.limits = limits.withDefaults()
	r.oneLine = min(r.limits.Line, r.limits.Size-len("_\r\n"))
}

// Reset forgets everything received, and the error, for another stream.
func (r *Reader) Reset() {
	r.takeBack()
	r.next = r.fill
	r.begin()
	r.discard()
	r.base, r.err = 0, nil
}

// begin makes ready for a new value at next.
func (r *Reader) begin() {
	r.scan, r.seen, r.at, r.elements = 0, 1, 0, 0
	r.head.size = 0
	r.stack = r.stack[:1]
	r.stack[0] = frame{left: 1}
}

// takeBack ends the life of the views.
func (r *Reader) takeBack() {
	if poisoned {
		poison(r.buf[r.prev:r.next])
	}
	r.prev = r.next
}

// fail makes a fault at the line being judged the Reader's sticky error.
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

// discard frees the whole buffer. Nothing in it is wanted.
func (r *Reader) discard() {
	r.base += int64(r.fill)
	r.prev, r.next, r.fill = 0, 0, 0
	if len(r.buf) > growth {
		r.buf = make([]byte, smallBuffer) // a large value came once; do not keep its room for ever
	}
}

// makeRoom slides or replaces the buffer, so that there is room behind fill.
func (r *Reader) makeRoom() {
	held := r.fill - r.next
	if held > r.limits.Size+growth {
		r.fail(unread) // one value cannot be the cause: Next would have refused it
		return
	}
	buf := r.buf
	// Sliding less than was consumed keeps the cost of all slides linear, and
	// leaves at least half the buffer free.
	if r.next < held || len(buf) > held+growth {
		buf = make([]byte, bufferFor(held))
	}
	copy(buf, r.buf[r.next:r.fill])
	r.buf = buf
	r.base += int64(r.next)
	r.prev, r.next, r.fill = 0, 0, held
}

// bufferFor returns the length of a buffer that has held bytes to keep and more to
// come: twice as long while small, then longer by growth.
func bufferFor(held int) int {
	if held <= smallBuffer/2 {
		return smallBuffer
	}
	return held + min(held, growth)
}

// judge looks at what of b, the bytes from next on, it has not seen before. It
// returns sound when a value is complete: it has scan bytes, and its own line is
// known.
func (r *Reader) judge(b []byte) fault {
	for {
		h, f := r.head, sound
		if h.size == 0 {
			if h, f = r.judgeLine(b); f != sound {
				return f
			}
		}
		end := r.scan + int(h.size)
		if n := h.payload(); n > 0 {
			if len(b) < end+n {
				r.head = h
				return short
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

// judgeLine reads the line at scan, and holds it against the limits and against what
// it stands in.
func (r *Reader) judgeLine(b []byte) (head, fault) {
	room := r.limits.Size - r.scan - len("_\r\n")
	if room < 0 && len(b) > r.scan {
		return head{}, large
	}
	h, f := parseHead(b[r.scan:], r.seen, min(r.limits.Line, room), &r.limits)
	switch {
	case f == short:
		r.seen = int(h.size)
		return head{}, short
	case f == longLine && room < r.limits.Line:
		return head{}, large
	case f != sound:
		return head{}, f
	}
	if r.scan+int(h.size)+h.payload() > r.limits.Size {
		return head{}, large
	}
	if len(r.stack) == 1 {
		r.at, r.n = r.scan, h.n // the last such line is the value's own
	} else if h.typ == Push {
		// "Push data may precede or follow any of RESP's data types, but never
		// inside them": protocol specification, Pushes.
		return head{}, badPush
	}
	if h.typ.form() == aggregate && h.n >= 0 {
		f = r.judgeAggregate(h)
	}
	return h, f
}

// judgeAggregate counts an aggregate's elements and its depth.
func (r *Reader) judgeAggregate(h head) fault {
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
		return deep
	}
	return sound
}

// closes opens the aggregate that h began, or counts the value that h was, and
// reports whether the top-level value is complete with it.
func (r *Reader) closes(h head) bool {
	if h.elements() > 0 {
		r.stack = append(r.stack, frame{left: h.n, attribute: h.typ == Attribute})
		return false
	}
	isAttribute := h.typ == Attribute
	for {
		top := &r.stack[len(r.stack)-1]
		if isAttribute {
			return false // its value is to come
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
