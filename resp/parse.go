package resp

import (
	"bytes"
	"math"
)

// head is the content of the first line of a value.
type head struct {
	typ  Type
	size int32 // bytes of the line, CR and LF included
	// n is the number of bytes of a bulk's payload, or of an aggregate's
	// elements, two for each pair. It is -1 for null.
	n int32
}

// payload returns how many bytes follow the line before the next value's line.
func (h head) payload() int {
	if h.typ.form() == formBulk && h.n >= 0 {
		return int(h.n) + len("\r\n")
	}
	return 0
}

// elements returns how many values follow the line.
func (h head) elements() int {
	if h.typ.form() == formAggregate && h.n > 0 {
		return int(h.n)
	}
	return 0
}

// isLeaf reports whether the value ends with its line and payload. An aggregate
// with elements does not, nor does an attribute, which a value follows.
func (h head) isLeaf() bool {
	return h.n < 0 || h.typ.form() != formAggregate
}

// fault is a reason to refuse a stream. The zero fault is none.
type fault byte

const (
	sound      fault = iota
	incomplete       // no fault: more bytes are needed

	// Not RESP.
	badType
	badStreamed
	badCR
	badLF
	badEnd
	badLength
	badInteger
	badBoolean
	badNull
	badDouble
	badBigNumber
	badVerbatim
	badPush

	// RESP, but over a limit.
	longLine
	longBulk
	manyElements
	tooDeep
	tooLarge
	tooMuchUnread
)

var reasons = [...]string{
	badType:       "unknown type byte",
	badStreamed:   "streamed strings and aggregates are not supported",
	badCR:         "CR without LF",
	badLF:         "LF without CR",
	badEnd:        "payload does not end with CR and LF",
	badLength:     "length is not a decimal number",
	badInteger:    "integer is not a decimal number of 64 bits",
	badBoolean:    "boolean is neither t nor f",
	badNull:       "null is not empty",
	badDouble:     "double is not a decimal number, inf, -inf or nan",
	badBigNumber:  "big number is not a decimal number",
	badVerbatim:   "verbatim string does not begin with three bytes and a colon",
	badPush:       "push within another value",
	longLine:      "line exceeds its limit",
	longBulk:      "bulk exceeds its limit",
	manyElements:  "elements exceed their limit",
	tooDeep:       "depth exceeds its limit",
	tooLarge:      "value exceeds its limit of bytes",
	tooMuchUnread: "bytes not yet taken by Next exceed their limit",
}

// parseHead parses the first line of the value that begins b. b[1:seen] must
// hold neither CR nor LF. If the line is incomplete, the returned size is the
// seen to pass next time. parseHead refuses a line of more than maxLine bytes,
// and a length or a count over the limits.
//
// The result depends on the bytes of the line alone, never on where reads cut
// it.
func parseHead(b []byte, seen, maxLine int, limits *Limits) (head, fault) {
	if isDigitLine(b) && maxLine > 0 {
		return head{typ: Integer, size: int32(digitLine)}, sound
	}
	if len(b) == 0 {
		return head{size: 1}, incomplete
	}
	h := head{typ: Type(b[0])}
	kind := h.typ.form()
	if kind == formUnknown {
		return h, unknownType(b[0])
	}
	cr, f := lineEnd(b, seen, maxLine)
	if f != sound {
		h.size = int32(cr)
		return h, f
	}
	h.size = int32(cr + len("\r\n"))
	// Only the content of a whole line is checked: otherwise the result would
	// depend on how the line was cut.
	if kind == formLine {
		return h, checkLine(h.typ, b[1:cr])
	}
	h.n, f = parseLength(h.typ, b[1:cr], limits)
	return h, f
}

// digitLine is the length of an integer of one digit, which scripts return.
const digitLine = len(":1\r\n")

func isDigitLine(b []byte) bool {
	return len(b) >= digitLine && Type(b[0]) == Integer && b[1]-'0' <= 9 && b[2] == '\r' && b[3] == '\n'
}

func unknownType(c byte) fault {
	if c == ';' || c == '.' { // a chunk, and the end of a streamed aggregate
		return badStreamed
	}
	return badType
}

// lineEnd returns the index of the CR that ends the line which begins with the
// type byte b[0]. Of several faults it returns the first in the order of the
// bytes.
func lineEnd(b []byte, seen, maxLine int) (int, fault) {
	if longest := 1 + maxLine + len("\r\n"); len(b) > longest {
		b = b[:longest] // the rest cannot matter
	}
	i := findBreak(b, seen)
	switch {
	case i-1 > maxLine:
		return 0, longLine
	case i >= len(b):
		return i, incomplete
	case b[i] == '\n':
		return 0, badLF
	case i+1 == len(b):
		return i, incomplete
	case b[i+1] != '\n':
		return 0, badCR
	}
	return i, sound
}

// findBreak returns the index of the first CR or LF at or behind b[i], or
// len(b).
func findBreak(b []byte, i int) int {
	// For most lines this is faster than the two calls below.
	for near := min(len(b), i+16); i < near; i++ {
		if b[i] == '\r' || b[i] == '\n' {
			return i
		}
	}
	rest := b[i:]
	if n := bytes.IndexByte(rest, '\r'); n >= 0 {
		rest = rest[:n]
	}
	if n := bytes.IndexByte(rest, '\n'); n >= 0 {
		rest = rest[:n]
	}
	return i + len(rest)
}

// checkLine checks the content of a type that is one line.
func checkLine(t Type, content []byte) fault {
	switch t {
	case Integer:
		if _, ok := parseInteger(content); !ok {
			return badInteger
		}
	case Null:
		if len(content) != 0 {
			return badNull
		}
	case Boolean:
		if len(content) != 1 || content[0] != 't' && content[0] != 'f' {
			return badBoolean
		}
	case Double:
		if !isDouble(content) {
			return badDouble
		}
	case BigNumber:
		if !isInteger(content) {
			return badBigNumber
		}
	}
	return sound // simple strings and errors: anything without CR and LF
}

// checkPayload checks a bulk's payload with its CR LF.
func checkPayload(t Type, b []byte) fault {
	n := len(b) - len("\r\n")
	if b[n] != '\r' || b[n+1] != '\n' {
		return badEnd
	}
	if t == VerbatimString && (n < len("txt:") || b[3] != ':') {
		return badVerbatim
	}
	return sound
}

// parseLength parses the length of a bulk or the count of an aggregate, and
// checks its limit. The only negative number is -1, for the two nulls of RESP2.
func parseLength(t Type, digits []byte, limits *Limits) (int32, fault) {
	// Bulk errors, verbatim strings and the aggregates of RESP3 have no null of
	// their own: RESP3 has one for all.
	if t == BulkString || t == Array {
		if len(digits) == 2 && digits[0] == '-' && digits[1] == '1' {
			return -1, sound
		}
	}
	most, each, excess := limits.Elements, 1, manyElements
	switch {
	case t.form() == formBulk:
		most, excess = limits.Bulk, longBulk
	case t == Map || t == Attribute:
		most, each = most/2, 2
	}
	n, f := parseDigits(digits, most, excess)
	return int32(n * each), f
}

// parseDigits parses a number without a sign. A number over most is the fault
// excess; most itself is far from overflow.
func parseDigits(digits []byte, most int, excess fault) (int, fault) {
	if len(digits) == 0 {
		return 0, badLength
	}
	n := int64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			if len(digits) == 1 && c == '?' {
				return 0, badStreamed
			}
			return 0, badLength
		}
		// A number that is too large already does not grow, but its other
		// digits are still checked.
		if n <= int64(most) {
			n = n*10 + int64(c-'0')
		}
	}
	if n > int64(most) {
		return 0, excess
	}
	return int(n), sound
}

// parseInteger parses a number of 64 bits with an optional sign.
func parseInteger(b []byte) (int64, bool) {
	digits := b
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		digits = b[1:]
	}
	if len(digits) == 0 {
		return 0, false
	}
	n := int64(0) // negative: the smallest number has no positive counterpart
	for _, c := range digits {
		d := int64(c - '0')
		if d > 9 || n < (math.MinInt64+d)/10 {
			return 0, false
		}
		n = n*10 - d
	}
	if b[0] == '-' {
		return n, true
	}
	return -n, n != math.MinInt64
}

// isInteger reports whether b is an integer of any size.
func isInteger[S ~string | ~[]byte](b S) bool {
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	return len(b) > 0 && countDigits(b) == len(b)
}

// isDouble reports whether b is a double:
// [+|-] digits [. digits] [e|E [+|-] digits], inf, -inf or what isNaN accepts.
func isDouble(b []byte) bool {
	// The specification has no "+inf".
	if string(b) == "inf" || string(b) == "-inf" || isNaN(b) {
		return true
	}
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	n := countDigits(b)
	if n == 0 {
		return false
	}
	b = b[n:]
	if len(b) > 0 && b[0] == '.' {
		if n = countDigits(b[1:]); n == 0 {
			return false
		}
		b = b[1+n:]
	}
	if len(b) > 0 && (b[0] == 'e' || b[0] == 'E') {
		return isInteger(b[1:])
	}
	return len(b) == 0
}

// isNaN reports whether b is nan as C's printf writes it: [+|-] nan, in any
// case, and what is within ( ) behind it. The specification has only "nan", but
// redis-server 7.0 sends what printf writes, which is "-nan" for 0/0 on x86.
func isNaN(b []byte) bool {
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	if len(b) < 3 || b[0]|0x20 != 'n' || b[1]|0x20 != 'a' || b[2]|0x20 != 'n' {
		return false
	}
	b = b[3:]
	return len(b) == 0 || len(b) > 1 && b[0] == '(' && b[len(b)-1] == ')' && isWord(b[1:len(b)-1])
}

// isWord reports whether b has only letters, digits and underscores.
func isWord(b []byte) bool {
	for _, c := range b {
		if letter := c|0x20 >= 'a' && c|0x20 <= 'z'; !letter && c != '_' && countDigits([]byte{c}) == 0 {
			return false
		}
	}
	return true
}

// countDigits returns how many decimal digits begin b.
func countDigits[S ~string | ~[]byte](b S) int {
	n := 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	return n
}
