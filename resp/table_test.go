package resp_test

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/resp"
)

// entry is a line of testdata/resp: bytes and their meaning.
type entry struct {
	place   string // file and line
	limits  resp.Limits
	wire    []byte
	meaning string
}

// table reads all of testdata/resp. simple.txt describes the format.
func table(t testing.TB) (entries []entry) {
	t.Helper()
	files, err := filepath.Glob("../testdata/resp/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		entries = append(entries, tableFile(t, file)...)
	}
	return entries
}

func tableFile(t testing.TB, name string) (entries []entry) {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	limits := resp.Limits{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		place := fmt.Sprintf("%s:%d", filepath.Base(name), n)
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "limits"):
			limits = parseLimits(t, place, line)
		default:
			quoted, err := strconv.QuotedPrefix(line)
			require.NoError(t, err, place)
			wire, err := strconv.Unquote(quoted)
			require.NoError(t, err, place)
			meaning := strings.TrimSpace(line[len(quoted):])
			entries = append(entries, entry{place, limits, []byte(wire), meaning})
		}
	}
	require.NoError(t, lines.Err())
	return entries
}

func parseLimits(t testing.TB, place, line string) (limits resp.Limits) {
	t.Helper()
	fields := map[string]*int{
		"line": &limits.Line, "bulk": &limits.Bulk, "elements": &limits.Elements,
		"depth": &limits.Depth, "size": &limits.Size,
	}
	for _, word := range strings.Fields(line)[1:] {
		name, value, _ := strings.Cut(word, "=")
		require.Contains(t, fields, name, place)
		n, err := strconv.Atoi(value)
		require.NoError(t, err, place)
		*fields[name] = n
	}
	return limits
}

// meaning describes what the reader makes of its input: the values joined by
// "then", and how they end.
func meaning(r *resp.Reader) string {
	return strings.Join(outcome(r, nil), " then ")
}

// outcome appends the results of Next, in words, until it needs more bytes.
func outcome(r *resp.Reader, said []string) []string {
	said = drain(r, said)
	if len(said) == 0 && r.Buffered() == 0 {
		return append(said, "nothing")
	}
	if r.Buffered() > 0 {
		said = append(said, "unfinished")
	}
	return said
}

// drain appends each value that Next returns, and the error if there is one.
func drain(r *resp.Reader, said []string) []string {
	for {
		v, ok, err := r.Next()
		if err != nil {
			var e *resp.SyntaxError
			if !errors.As(err, &e) {
				panic(err)
			}
			return append(said, fmt.Sprintf("refused at %d: %s", e.Offset, e.Reason))
		}
		if !ok {
			return said
		}
		said = append(said, describe(v))
	}
}

// describe returns a text that differs for any two different values.
func describe(v resp.Value) string {
	own := describeOwn(v)
	if attribute, ok := v.Attributes(); ok {
		return describe(attribute) + " " + own
	}
	return own
}

func describeOwn(v resp.Value) string {
	name := v.Type().String()
	if v.IsNull() && v.Type() != resp.Null {
		return name + " null"
	}
	switch v.Type() {
	case resp.Null:
		return name
	case resp.Integer:
		i, ok := v.Int64()
		return fmt.Sprint(name, " ", mustOK(i, ok))
	case resp.Boolean:
		b, ok := v.Bool()
		return fmt.Sprint(name, " ", mustOK(b, ok))
	case resp.Double:
		f, ok := v.Float64()
		if !ok {
			return name + " out of range"
		}
		return name + " " + formatFloat(f)
	case resp.VerbatimString:
		return fmt.Sprintf("%s %s %q", name, escape(v.Format()), v.Bytes())
	case resp.Map, resp.Attribute:
		var pairs []string
		for key, value := range v.Pairs() {
			pairs = append(pairs, describe(key)+": "+describe(value))
		}
		return name + " {" + strings.Join(pairs, ", ") + "}"
	case resp.Array, resp.Set, resp.Push:
		var elements []string
		for e := range v.Elements() {
			elements = append(elements, describe(e))
		}
		return name + " [" + strings.Join(elements, ", ") + "]"
	}
	return fmt.Sprintf("%s %q", name, v.Bytes())
}

func mustOK[T any](value T, ok bool) T {
	if !ok {
		panic("accessor refused a value of its own type")
	}
	return value
}

func formatFloat(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// escape is Quote without the quotes.
func escape(b []byte) string {
	q := strconv.Quote(string(b))
	return q[1 : len(q)-1]
}

// appendValue encodes a value again with the Append functions.
func appendValue(dst []byte, v resp.Value) []byte {
	if attribute, ok := v.Attributes(); ok {
		dst = appendValue(dst, attribute)
	}
	switch t := v.Type(); {
	case t == resp.Null:
		return resp.AppendNull(dst)
	case t == resp.BulkString && v.IsNull():
		return resp.AppendNullBulkString(dst)
	case t == resp.Array && v.IsNull():
		return resp.AppendNullArray(dst)
	case t == resp.SimpleString:
		return resp.AppendSimpleString(dst, v.Bytes())
	case t == resp.SimpleError:
		return resp.AppendSimpleError(dst, v.Bytes())
	case t == resp.BulkString:
		return resp.AppendBulkString(dst, v.Bytes())
	case t == resp.BulkError:
		return resp.AppendBulkError(dst, v.Bytes())
	case t == resp.VerbatimString:
		return resp.AppendVerbatimString(dst, string(v.Format()), v.Bytes())
	case t == resp.BigNumber:
		return resp.AppendBigNumber(dst, v.Bytes())
	case t == resp.Integer:
		i, _ := v.Int64()
		return resp.AppendInteger(dst, i)
	case t == resp.Boolean:
		b, _ := v.Bool()
		return resp.AppendBoolean(dst, b)
	case t == resp.Double:
		f, _ := v.Float64()
		return resp.AppendDouble(dst, f)
	}
	return appendAggregate(dst, v)
}

func appendAggregate(dst []byte, v resp.Value) []byte {
	switch v.Type() {
	case resp.Array:
		dst = resp.AppendArray(dst, v.Len())
	case resp.Set:
		dst = resp.AppendSet(dst, v.Len())
	case resp.Push:
		dst = resp.AppendPush(dst, v.Len())
	case resp.Map:
		dst = resp.AppendMap(dst, v.Len()/2)
	case resp.Attribute:
		dst = resp.AppendAttribute(dst, v.Len()/2)
	default:
		panic(v.Type().String())
	}
	for e := range v.Elements() {
		dst = appendValue(dst, e)
	}
	return dst
}
