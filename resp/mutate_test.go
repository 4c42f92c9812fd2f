package resp_test

import (
	"bytes"
	"strconv"

	"github.com/redmux/redmux/resp"
)

// Inputs for TestDecoderManyInputs. They are short, so that many run in a
// second: the limits that short inputs reach are checked by the same code as
// those that only long inputs reach.

// inputMost is the greatest length of an input.
const inputMost = 300

// make writes the next input to wire.
func (b *batch) make() {
	b.wire = b.wire[:0]
	if b.random.IntN(2) == 0 {
		b.wire = append(b.wire, b.corpus[b.random.IntN(len(b.corpus))]...)
	} else {
		for range 1 + b.random.IntN(3) {
			b.grow(0)
		}
	}
	for range b.random.IntN(4) {
		b.mutate()
	}
	b.wire = b.wire[:min(len(b.wire), inputMost)]
	if b.random.IntN(20_000) == 0 {
		b.lengthen()
	}
}

// lengthen adds a prefix for cases that only long inputs reach: growing buffers
// and the ordinary limits.
func (b *batch) lengthen() {
	var long []byte
	switch n := b.random.IntN(80_000); b.random.IntN(4) {
	case 0:
		long = append(resp.AppendBulkString(nil, bytes.Repeat([]byte("x"), n)), b.wire...)
	case 1:
		long = append(resp.AppendArray(nil, n/4), bytes.Repeat([]byte("_\r\n"), n/4)...)
	case 2: // a line of the greatest length, or one byte more
		n = 64<<10 - 2 + b.random.IntN(4)
		long = append(bytes.Repeat([]byte("0"), n), "1\r\n"...)
		long = append([]byte{one(b, known)}, long...)
	case 3: // a value every few bytes, some of them cut
		long = bytes.Repeat(append(resp.AppendBulkString(nil, "abc"), "*2\r\n:1\r\n:2\r\n"...), n/20)
	}
	b.wire = append(long, b.wire...)
}

// Texts and numbers that a decoder may misread.
var (
	texts    = []string{"", "OK", "a", "txt:", "mkd:x", "ERR no", "NOSCRIPT x", "\x00", "\xff", "-1", "$1", "txt", "é"}
	integers = []string{
		"0", "1", "-1", "+1", "-0", "007", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
		"-9223372036854775809", "18446744073709551616", "", "-", "+-1", " 1", "1 ", "1_0", "0x1", "1.0", "١",
	}
	doubles = []string{
		"1.5", "-1e9", "inf", "-inf", "nan", "+inf", "-nan", "NaN", "nan(1)", "nan(", "1.", ".5", "1e", "1e+5", "1e400", "-0", "1e-400", "Inf", "1.5e", "0x1p2",
	}
	lengths = []string{
		"-1", "-2", "+1", "-0", "00", "01", "?", "??", "", "4", "5", "9", "10", "16", "31", "1048576", "1048577", "524288", "524289",
		"2147483647", "2147483648", "4294967297", "9223372036854775807", "18446744073709551617", "00000000000000000000001",
	}
)

// one returns a random element.
func one[T any](b *batch, all []T) T { return all[b.random.IntN(len(all))] }

// grow appends a well-formed value, or nearly one.
func (b *batch) grow(depth int) {
	t := one(b, known)
	b.wire = append(b.wire, t)
	switch resp.Type(t) {
	case resp.SimpleString, resp.SimpleError:
		b.wire = append(b.wire, one(b, texts)...)
	case resp.Integer, resp.BigNumber:
		b.wire = append(b.wire, one(b, integers)...)
	case resp.Double:
		b.wire = append(b.wire, one(b, doubles)...)
	case resp.Boolean:
		b.wire = append(b.wire, "tf"[b.random.IntN(2)])
	case resp.Null:
	case resp.BulkString, resp.BulkError, resp.VerbatimString:
		b.growBulk()
	default:
		b.growAggregate(resp.Type(t), depth)
		return
	}
	b.wire = append(b.wire, "\r\n"...)
}

func (b *batch) growBulk() {
	text := one(b, texts)
	if b.random.IntN(3) == 0 {
		text = "txt:\r\n$0"[:b.random.IntN(9)]
	}
	b.wire = strconv.AppendInt(b.wire, int64(len(text)), 10)
	b.wire = append(b.wire, "\r\n"...)
	b.wire = append(b.wire, text...)
}

// growAggregate appends the rest of an aggregate. An attribute is usually
// followed by its value.
func (b *batch) growAggregate(t resp.Type, depth int) {
	n := b.random.IntN(4)
	b.wire = strconv.AppendInt(b.wire, int64(n), 10)
	b.wire = append(b.wire, "\r\n"...)
	if t == resp.Map || t == resp.Attribute {
		n *= 2
	}
	if t == resp.Attribute {
		n++
	}
	for range n {
		if depth < 5 && len(b.wire) < inputMost {
			b.grow(depth + 1)
		}
	}
}

// mutate makes one change to the input.
func (b *batch) mutate() {
	if len(b.wire) == 0 {
		b.grow(0)
		return
	}
	at := b.random.IntN(len(b.wire))
	switch b.random.IntN(11) {
	case 0: // a byte with a meaning
		b.wire[at] = one(b, interesting)
	case 1:
		b.wire[at] = byte(b.random.IntN(256))
	case 2:
		b.wire = append(b.wire[:at], b.wire[at+1:]...)
	case 3:
		b.wire = append(b.wire[:at+1], b.wire[at:]...) // a byte twice
		b.wire[at] = one(b, interesting)
	case 4:
		b.wire = b.wire[:at]
	case 5: // another length or number
		b.replaceContent(at, one(b, lengths))
	case 6:
		b.replaceContent(at, one(b, integers))
	case 7: // another type for the same line
		b.wire[b.lineStart(at)] = one(b, known)
	case 8: // a line twice
		b.insert(at, b.wire[b.lineStart(at):b.lineEnd(at)])
	case 9: // another input from here on
		b.wire = append(b.wire[:b.lineStart(at)], one(b, b.corpus)...)
	case 10: // one more aggregate around it
		b.insert(0, []byte(one(b, []string{"*1\r\n", "*2\r\n", "|0\r\n", "|1\r\n", "%1\r\n", ">1\r\n", "~1\r\n"})))
	}
}

var interesting = []byte("+-:$*_#,(!=%|~>;.?\r\n\r\n0123456789 \x00\xdb\xfftfea")

// lineStart returns the start of the line that contains at.
func (b *batch) lineStart(at int) int { return bytes.LastIndexByte(b.wire[:at], '\n') + 1 }

// lineEnd returns the start of the following line.
func (b *batch) lineEnd(at int) int {
	if n := bytes.IndexByte(b.wire[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(b.wire)
}

// replaceContent replaces the text between the type and the end of a line.
func (b *batch) replaceContent(at int, text string) {
	from, to := b.lineStart(at)+1, b.lineEnd(at)
	if bytes.HasSuffix(b.wire[:to], []byte("\r\n")) {
		to -= 2
	}
	if from > to {
		return
	}
	b.other = append(append(append(b.other[:0], b.wire[:from]...), text...), b.wire[to:]...)
	b.wire, b.other = b.other, b.wire
}

func (b *batch) insert(at int, text []byte) {
	b.other = append(append(append(b.other[:0], b.wire[:at]...), text...), b.wire[at:]...)
	b.wire, b.other = b.other, b.wire
}
