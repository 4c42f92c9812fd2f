package resp

import (
	"math"
	"strconv"
)

// AppendCommand appends a command: an array of bulk strings, one for each
// argument. It is all that a client needs. The other functions are for servers,
// proxies and fakes, which encode replies.
//
// No byte of an argument can end it (R19).
func AppendCommand(dst []byte, args ...string) []byte {
	dst = AppendArray(dst, len(args))
	for _, arg := range args {
		dst = AppendBulkString(dst, arg)
	}
	return dst
}

// AppendArray appends the header of an array. Its n elements must follow.
func AppendArray(dst []byte, n int) []byte { return appendLength(dst, Array, n) }

// AppendMap appends the header of a map. A key and a value for each of its
// pairs must follow.
func AppendMap(dst []byte, pairs int) []byte { return appendLength(dst, Map, pairs) }

// AppendSet appends the header of a set. Its n elements must follow.
func AppendSet(dst []byte, n int) []byte { return appendLength(dst, Set, n) }

// AppendPush appends the header of a push. Its n elements must follow; the
// first names its kind. A push must not be an element of another value.
func AppendPush(dst []byte, n int) []byte { return appendLength(dst, Push, n) }

// AppendAttribute appends the header of an attribute. A key and a value for
// each of its pairs must follow, and then the value that it belongs to.
func AppendAttribute(dst []byte, pairs int) []byte { return appendLength(dst, Attribute, pairs) }

// AppendBulkString appends a bulk string of any bytes.
func AppendBulkString[S ~string | ~[]byte](dst []byte, s S) []byte {
	return appendBulk(dst, BulkString, s)
}

// AppendBulkError appends a bulk error of any bytes.
func AppendBulkError[S ~string | ~[]byte](dst []byte, s S) []byte {
	return appendBulk(dst, BulkError, s)
}

// AppendVerbatimString appends a verbatim string of any bytes. The format must
// have three bytes, such as "txt" or "mkd"; otherwise it panics.
func AppendVerbatimString[S ~string | ~[]byte](dst []byte, format string, s S) []byte {
	if len(format) != 3 {
		panic("resp: format of a verbatim string is not three bytes")
	}
	dst = appendLength(dst, VerbatimString, len(format)+1+len(s))
	dst = append(dst, format...)
	dst = append(dst, ':')
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

// AppendSimpleString appends a simple string. Each CR and LF is replaced by a
// space, as servers do, since a simple string cannot contain them.
func AppendSimpleString[S ~string | ~[]byte](dst []byte, s S) []byte {
	return appendLine(dst, SimpleString, s)
}

// AppendSimpleError appends a simple error, whose text begins with its prefix.
// Each CR and LF is replaced by a space, as servers do, since a simple error
// cannot contain them.
func AppendSimpleError[S ~string | ~[]byte](dst []byte, s S) []byte {
	return appendLine(dst, SimpleError, s)
}

// AppendInteger appends an integer.
func AppendInteger(dst []byte, i int64) []byte {
	dst = strconv.AppendInt(append(dst, byte(Integer)), i, 10)
	return append(dst, '\r', '\n')
}

// AppendBoolean appends a boolean.
func AppendBoolean(dst []byte, b bool) []byte {
	if b {
		return append(dst, "#t\r\n"...)
	}
	return append(dst, "#f\r\n"...)
}

// AppendDouble appends a double with as many digits as are needed to decode the
// same number.
func AppendDouble(dst []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, ",inf\r\n"...)
	case math.IsInf(f, -1):
		return append(dst, ",-inf\r\n"...)
	case math.IsNaN(f):
		return append(dst, ",nan\r\n"...)
	}
	dst = strconv.AppendFloat(append(dst, byte(Double)), f, 'g', -1, 64)
	return append(dst, '\r', '\n')
}

// AppendBigNumber appends an integer of any size, given by its decimal digits
// with or without a sign. It panics if digits is anything else.
func AppendBigNumber[S ~string | ~[]byte](dst []byte, digits S) []byte {
	if !isInteger(digits) {
		panic("resp: big number is not an integer")
	}
	return appendLine(dst, BigNumber, digits)
}

// AppendNull appends the null of RESP3.
func AppendNull(dst []byte) []byte { return append(dst, "_\r\n"...) }

// AppendNullBulkString appends the null of RESP2 that stands for a string.
func AppendNullBulkString(dst []byte) []byte { return append(dst, "$-1\r\n"...) }

// AppendNullArray appends the null of RESP2 that stands for an array.
func AppendNullArray(dst []byte) []byte { return append(dst, "*-1\r\n"...) }

// appendLength appends the first line of a bulk or an aggregate.
func appendLength(dst []byte, t Type, n int) []byte {
	if n < 0 {
		panic("resp: negative length")
	}
	dst = append(dst, byte(t))
	if n < 10 { // the usual case, at half the cost
		return append(dst, '0'+byte(n), '\r', '\n')
	}
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

func appendBulk[S ~string | ~[]byte](dst []byte, t Type, s S) []byte {
	dst = appendLength(dst, t, len(s))
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

func appendLine[S ~string | ~[]byte](dst []byte, t Type, s S) []byte {
	dst = append(dst, byte(t))
	start := len(dst)
	dst = append(dst, s...)
	// Redis does the same to its errors: networking.c,
	// addReplyErrorFormatInternal.
	for i, c := range dst[start:] {
		if c == '\r' || c == '\n' {
			dst[start+i] = ' '
		}
	}
	return append(dst, '\r', '\n')
}
