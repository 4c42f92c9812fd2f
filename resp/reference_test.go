package resp_test

import (
	"math/big"
	"regexp"
	"slices"
	"strconv"

	"github.com/redmux/redmux/resp"
)

// A reference is a second decoder, written from the protocol specification and
// from what R18 adds to it. It is slow: it has all bytes from the start, reads
// them one by one, recurses into nested values, and leaves numbers to regular
// expressions and to the standard library. It shares only the names of the
// types with the Reader, so both are unlikely to be wrong in the same way.
type reference struct {
	wire   []byte
	limits resp.Limits // complete

	at       int // the next byte
	start    int // the start of the top-level value
	line     int // the start of the current line
	elements int // announced so far within the top-level value

	said   []item // the complete values, in the order of their lines
	ends   []ending
	fault  string // why the stream is refused, or ""
	offset int    // of the fault
}

// An item is one value without its elements.
type item struct {
	typ     resp.Type
	null    bool   // one of the two nulls of RESP2
	text    []byte // the line's content, or the payload
	integer int64
	len     int // elements of an aggregate
}

// An ending is the place where a top-level value is complete: in the stream,
// and among the items.
type ending struct{ byte, item int }

// decode reads all of wire. The limits must not be zero.
func (r *reference) decode(wire []byte, limits resp.Limits) {
	*r = reference{wire: wire, limits: limits, said: r.said[:0], ends: r.ends[:0]}
	for r.value(1) {
		r.ends = append(r.ends, ending{r.at, len(r.said)})
		r.start, r.elements = r.at, 0
	}
	last := ending{}
	if n := len(r.ends); n > 0 {
		last = r.ends[n-1]
	}
	r.said = r.said[:last.item]
}

// rest returns how many bytes belong to an incomplete value.
func (r *reference) rest() int {
	if r.fault != "" {
		return 0
	}
	return len(r.wire) - r.start
}

// refuse records a fault of the current line. It returns false, as every
// function that found no value does.
func (r *reference) refuse(reason string) bool {
	r.fault, r.offset = reason, r.line
	return false
}

// value reads the value at at, with its elements and attributes. It returns
// false after a fault, or if more bytes are needed. depth is that of an
// aggregate in this place.
func (r *reference) value(depth int) bool {
	for attributes := 0; ; attributes++ {
		content, ok := r.readLine()
		if !ok {
			return false
		}
		t := resp.Type(r.wire[r.line])
		switch t {
		case resp.BulkString, resp.BulkError, resp.VerbatimString:
			return r.bulk(t, content)
		case resp.Array, resp.Set, resp.Map, resp.Push, resp.Attribute:
		default:
			return r.simple(t, content)
		}
		n, ok := r.count(t, content)
		if !ok {
			return false
		}
		if t == resp.Push && depth > 1 {
			return r.refuse("push within another value")
		}
		if n < 0 {
			r.said = append(r.said, item{typ: t, null: true})
			return true
		}
		own := depth
		if t == resp.Attribute {
			own += attributes
		}
		if !r.elementsOf(t, n, depth, own) {
			return false
		}
		if t != resp.Attribute {
			return true
		}
	}
}

// elementsOf reads the n elements of an aggregate.
func (r *reference) elementsOf(t resp.Type, n, depth, own int) bool {
	if r.elements += n; r.elements > r.limits.Elements {
		return r.refuse("elements exceed their limit")
	}
	if own > r.limits.Depth {
		return r.refuse("depth exceeds its limit")
	}
	r.said = append(r.said, item{typ: t, len: n})
	for range n {
		if !r.value(depth + 1) {
			return false
		}
	}
	return true
}

// known are the bytes that can start a value.
var known = []byte("+-:$*_#,(!=%|~>")

// readLine reads a line and returns the text between its first byte and CR LF.
// The first fault in the order of the bytes counts; if there are several at one
// byte, the limit of the whole value comes first.
func (r *reference) readLine() (content []byte, ok bool) {
	r.line = r.at
	if r.at == len(r.wire) {
		return nil, false
	}
	// The shortest line has its type, CR and LF.
	room := r.limits.Size - (r.at - r.start) - 3
	if room < 0 {
		return nil, r.refuse("value exceeds its limit of bytes")
	}
	switch first := r.wire[r.at]; {
	case first == ';' || first == '.':
		return nil, r.refuse("streamed strings and aggregates are not supported")
	case !slices.Contains(known, first):
		return nil, r.refuse("unknown type byte " + strconv.QuoteRuneToASCII(rune(first)))
	}
	for i := r.at + 1; i < len(r.wire); i++ {
		switch size := i - r.at; {
		case r.wire[i] == '\n':
			return nil, r.refuse("LF without CR")
		case r.wire[i] == '\r' && i+1 == len(r.wire):
			return nil, false
		case r.wire[i] == '\r' && r.wire[i+1] != '\n':
			return nil, r.refuse("CR without LF")
		case r.wire[i] == '\r':
			r.at = i + 2
			return r.wire[r.line+1 : i], true
		case size > room && room < r.limits.Line:
			return nil, r.refuse("value exceeds its limit of bytes")
		case size > r.limits.Line:
			return nil, r.refuse("line exceeds its limit")
		}
	}
	return nil, false
}

var (
	// "[<+|->]<value>", and a big number likewise.
	integerOf = regexp.MustCompile(`\A[+-]?[0-9]+\z`)
	// "[<+|->]<integral>[.<fractional>][<E|e>[sign]<exponent>]", "inf", "-inf"
	// and "nan", and NaN as C's printf writes it.
	doubleOf = regexp.MustCompile(`\A([+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|-?inf|[+-]?(?i:nan)(\([0-9A-Za-z_]*\))?)\z`)
	lengthOf = regexp.MustCompile(`\A[0-9]+\z`)
)

// simple reads a value that is one line.
func (r *reference) simple(t resp.Type, content []byte) bool {
	i := item{typ: t, text: content}
	switch t {
	case resp.Integer:
		n, err := strconv.ParseInt(string(content), 10, 64)
		if err != nil {
			return r.refuse("integer is not a decimal number of 64 bits")
		}
		i.integer = n
	case resp.Null:
		if len(content) > 0 {
			return r.refuse("null is not empty")
		}
	case resp.Boolean:
		if string(content) != "t" && string(content) != "f" {
			return r.refuse("boolean is neither t nor f")
		}
	case resp.Double:
		if !doubleOf.Match(content) {
			return r.refuse("double is not a decimal number, inf, -inf or nan")
		}
	case resp.BigNumber:
		if !integerOf.Match(content) {
			return r.refuse("big number is not a decimal number")
		}
	}
	r.said = append(r.said, i)
	return true
}

// bulk reads the announced payload.
func (r *reference) bulk(t resp.Type, content []byte) bool {
	if t == resp.BulkString && string(content) == "-1" {
		r.said = append(r.said, item{typ: t, null: true})
		return true
	}
	n, ok := r.length(content, r.limits.Bulk, "bulk exceeds its limit")
	if !ok {
		return false
	}
	end := r.at + n
	switch {
	case end+2-r.start > r.limits.Size:
		return r.refuse("value exceeds its limit of bytes")
	case len(r.wire) < end+2:
		return false
	case string(r.wire[end:end+2]) != "\r\n":
		return r.refuse("payload does not end with CR and LF")
	}
	payload := r.wire[r.at:end]
	if t == resp.VerbatimString && (n < 4 || payload[3] != ':') {
		return r.refuse("verbatim string does not begin with three bytes and a colon")
	}
	r.said = append(r.said, item{typ: t, text: payload})
	r.at = end + 2
	return true
}

// count reads the announced number of elements, or -1 for the null of RESP2. A
// pair counts as two.
func (r *reference) count(t resp.Type, content []byte) (int, bool) {
	const excess = "elements exceed their limit"
	switch {
	case t == resp.Array && string(content) == "-1":
		return -1, true
	case t == resp.Map || t == resp.Attribute:
		n, ok := r.length(content, r.limits.Elements/2, excess)
		return 2 * n, ok
	}
	return r.length(content, r.limits.Elements, excess)
}

// length reads a number without a sign.
func (r *reference) length(content []byte, most int, excess string) (int, bool) {
	if string(content) == "?" {
		return 0, r.refuse("streamed strings and aggregates are not supported")
	}
	if !lengthOf.Match(content) {
		return 0, r.refuse("length is not a decimal number")
	}
	if n, err := strconv.Atoi(string(content)); err == nil && n <= most {
		return n, true
	}
	// The number of digits does not matter: leading zeros do not make it
	// larger.
	n, _ := new(big.Int).SetString(string(content), 10)
	if n.Cmp(big.NewInt(int64(most))) > 0 {
		return 0, r.refuse(excess)
	}
	return int(n.Int64()), true
}
