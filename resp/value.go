package resp

import (
	"bytes"
	"iter"
	"math"
	"strconv"
	"unsafe"
)

// Value is a decoded value: a view of the Reader's buffer, valid until the
// following call of Next, Space or Fill, and so is every slice taken from it.
// It is copied by value and allocates nothing. The zero Value has type 0.
//
// A method called on a value of the wrong type returns its zero result; nothing
// is converted.
type Value struct {
	// Four words, so that a Value is passed in registers. Methods read all else
	// from the encoding.
	raw []byte // the encoding: attributes, first line, payload or elements
	at  int32  // where the first line begins, with the type byte
	n   int32  // as in head
}

// Type returns the type of the value, or 0 for the zero Value. The two nulls of
// RESP2 have the types BulkString and Array.
func (v Value) Type() Type {
	if len(v.raw) == 0 {
		return 0
	}
	t := Type(v.raw[v.at])
	if poisoned && t == poisonByte {
		panic(stale)
	}
	return t
}

// IsNull reports whether the value is a null of RESP3 or one of the two of
// RESP2.
func (v Value) IsNull() bool { return v.n < 0 || v.Type() == Null }

// IsOK reports whether the value is the simple string OK.
func (v Value) IsOK() bool {
	return v.Type() == SimpleString && string(v.content()) == "OK"
}

// IsError reports whether the value is a simple or a bulk error.
func (v Value) IsError() bool {
	t := v.Type()
	return t == SimpleError || t == BulkError
}

// Bytes returns the text of a string, an error or a big number, and that of a
// verbatim string without its format. It returns nil for other types and for
// null. The result is valid until the following call of Next, Space or Fill,
// and must not be modified.
func (v Value) Bytes() []byte {
	switch v.Type() {
	case SimpleString, SimpleError, BulkString, BulkError, BigNumber:
		return v.content()
	case VerbatimString:
		return v.content()[len("txt:"):]
	}
	return nil
}

// Format returns the three bytes that name the format of a verbatim string,
// such as "txt" or "mkd", and nil for other types. The result is valid until
// the following call of Next, Space or Fill, and must not be modified.
func (v Value) Format() []byte {
	if v.Type() != VerbatimString {
		return nil
	}
	return v.content()[:3:3]
}

// Int64 returns the number of an Integer.
func (v Value) Int64() (i int64, ok bool) {
	if v.Type() != Integer {
		return 0, false
	}
	return parseInteger(v.content())
}

// Bool returns the value of a Boolean.
func (v Value) Bool() (value, ok bool) {
	if v.Type() != Boolean {
		return false, false
	}
	return v.content()[0] == 't', true
}

// Float64 returns the number of a Double, rounded to the nearest float64. A
// double too large for a float64 is returned as an infinity, and ok is false.
func (v Value) Float64() (f float64, ok bool) {
	if v.Type() != Double {
		return 0, false
	}
	b := v.content()
	if isNaN(b) {
		return math.NaN(), true // ParseFloat knows none with a sign
	}
	// ParseFloat keeps nothing of the string; a conversion would allocate for
	// more than 32 digits.
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(b), len(b)), 64)
	return f, err == nil
}

// Len returns the number of elements of an aggregate, where a key and its value
// count as two, and 0 for other types.
func (v Value) Len() int {
	if v.Type().form() != formAggregate || v.n < 0 {
		return 0
	}
	return int(v.n)
}

// Elements returns an iterator over the elements of an aggregate in their
// order, with keys and values in turn. Other types have none.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) { v.each(yield) }
}

func (v Value) each(yield func(Value) bool) {
	n := v.Len()
	if n == 0 {
		return
	}
	rest := v.elements()
	for range n {
		e := cut(rest)
		if !yield(e) {
			return
		}
		rest = rest[len(e.raw):]
	}
}

// Pairs returns an iterator over the keys and values of a Map or an Attribute.
// It reads the other aggregates as flat lists of pairs, which is how RESP2
// sends a map; a last key without a value comes with the zero Value.
func (v Value) Pairs() iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) { v.eachPair(yield) }
}

func (v Value) eachPair(yield func(Value, Value) bool) {
	var key Value
	for e := range v.Elements() {
		if key.raw == nil {
			key = e
			continue
		}
		if !yield(key, e) {
			return
		}
		key = Value{}
	}
	if key.raw != nil {
		yield(key, Value{})
	}
}

// Attributes returns the attribute that precedes the value. If there are
// several, it returns the last, whose own Attributes method returns the one
// before.
func (v Value) Attributes() (attribute Value, ok bool) {
	if v.at == 0 {
		return Value{}, false
	}
	own := v.raw[:v.at:v.at]
	for i := 0; ; {
		h := reparse(own[i:])
		end := walk(own, i+int(h.size), h.elements())
		if end >= len(own) {
			return Value{raw: own, at: int32(i), n: h.n}, true
		}
		i = end
	}
}

// AsError returns a copy of an error that outlives the view. ok is false, and
// err is nil, if the value is no error.
func (v Value) AsError() (err *Error, ok bool) {
	if !v.IsError() {
		return nil, false
	}
	return &Error{Message: string(v.content())}, true
}

// ErrorPrefix returns the first word of an error, such as "NOSCRIPT" of
// "NOSCRIPT No matching script", if it consists of at most 32 upper-case
// letters, digits and underscores; otherwise it returns "ERR". It returns nil
// if the value is no error. The result is valid until the following call of
// Next, Space or Fill, and must not be modified.
func (v Value) ErrorPrefix() []byte {
	if !v.IsError() {
		return nil
	}
	b := v.content()
	if n := prefixLen(b); n > 0 {
		return b[:n:n]
	}
	return noPrefix
}

var noPrefix = []byte("ERR")

// Raw returns the encoding of the value with its attributes. The result is
// valid until the following call of Next, Space or Fill, and must not be
// modified.
func (v Value) Raw() []byte { return v.raw }

// content returns the bytes between the type byte and CR LF of a line, or the
// payload of a bulk, or nil for null and for aggregates.
func (v Value) content() []byte {
	j := len(v.raw) - len("\r\n")
	i := int(v.at) + 1
	switch v.Type().form() {
	case formLine:
	case formBulk:
		if v.n < 0 {
			return nil
		}
		i = j - int(v.n)
	default:
		return nil
	}
	return v.raw[i:j:j]
}

// elements returns the encoding of an aggregate's elements.
func (v Value) elements() []byte {
	own := v.raw[v.at:]
	return own[bytes.IndexByte(own, '\n')+1:]
}

// cut returns the value that begins b, together with its attributes. The Reader
// has checked the bytes.
func cut(b []byte) Value {
	if isDigitLine(b) {
		return Value{raw: b[:digitLine:digitLine]}
	}
	at, h := 0, reparse(b)
	for h.typ == Attribute {
		at = walk(b, at+int(h.size), h.elements())
		h = reparse(b[at:])
	}
	end := at + int(h.size) + h.payload()
	if !h.isLeaf() {
		end = walk(b, end, h.elements())
	}
	if end > len(b) {
		panic(stale)
	}
	return Value{raw: b[:end:end], at: int32(at), n: h.n}
}

// walk returns the index behind the n values that begin at b[i]. It needs no
// stack: only the number of values to come matters, however deep they nest.
func walk(b []byte, i, n int) int {
	for n > 0 {
		if i >= len(b) {
			panic(stale)
		}
		h := reparse(b[i:])
		i += int(h.size) + h.payload()
		n += h.elements()
		if h.typ != Attribute { // an attribute comes in addition to its value
			n--
		}
	}
	return i
}

// reparse parses a line that the Reader has checked before. It panics if the
// bytes have changed since, which means that a view is used too late.
func reparse(b []byte) head {
	h, f := parseHead(b, 1, math.MaxInt32-3, &unlimited)
	if f != sound {
		panic(stale)
	}
	return h
}

const stale = "resp: value changed after it was decoded"
