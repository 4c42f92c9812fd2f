package properties

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/redcon"

	"github.com/redmux/redmux/resp"
)

// FuzzOracles compares the first value of a stream with the results of two
// other parsers. Both know only RESP2.
func FuzzOracles(f *testing.F) {
	addTable(f)
	f.Add([]byte(strings.Repeat("*1\r\n", 40) + ":1\r\n"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		if hugeLength.Match(wire) {
			return
		}
		r := resp.NewReader(resp.Limits{})
		for rest := wire; len(rest) > 0; {
			n := copy(r.Space(), rest)
			r.Commit(n)
			rest = rest[n:]
		}
		v, ok, err := r.Next()
		ours, comparable := "", true
		if ok {
			ours, comparable = plain(v)
		}
		if !comparable {
			return
		}
		compare(t, "redigo", wire, ours, err, readRedigo(wire), redigoAccepts)
		compare(t, "redcon", wire, ours, err, readRedcon(wire), redconAccepts)
	})
}

// addTable adds the values of resp's own tables as seeds.
func addTable(f *testing.F) {
	files, err := filepath.Glob("../../testdata/resp/*.txt")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		for line := range strings.Lines(string(text)) {
			quoted, err := strconv.QuotedPrefix(strings.TrimSpace(line))
			if err != nil {
				continue // a comment or a line of limits
			}
			wire, err := strconv.Unquote(quoted)
			require.NoError(f, err)
			f.Add([]byte(wire))
		}
	}
}

// hugeLength matches what crashes the oracles: redigo allocates whatever is
// announced, and in both the sum of a position and a length overflows.
var hugeLength = regexp.MustCompile(`[$*][+-]?[0-9]{5}`)

// Allowed differences: the oracles accept what we refuse for one of these
// reasons.
//
// Both look for LF and check the byte before it, so a CR may occur within their
// lines. In ours it may not, as in the specification ("must not contain CR or
// LF"). Both let an integer overflow 64 bits; redigo wraps around. Neither has
// limits.
// limits.
var (
	redigoAccepts = []string{"CR without LF", "integer is not", "limit"}

	// redcon reads lengths with Atoi, so they may have a sign, and takes every
	// negative length for null.
	redconAccepts = append([]string{"length is not"}, redigoAccepts...)
)

// plusSign matches the one thing that we accept and they refuse: in the
// specification an integer may begin with a plus.
var plusSign = regexp.MustCompile(`:\+[0-9]`)

// compare fails the test if the two results differ in a way that is not
// allowed. "" means no value.
func compare(t *testing.T, name string, wire []byte, ours string, err error, theirs string, accepts []string) {
	t.Helper()
	switch {
	case ours == theirs:
		return
	case ours != "" && theirs == "" && plusSign.Match(wire):
		return
	case ours == "" && err != nil:
		for _, reason := range accepts {
			if strings.Contains(err.Error(), reason) {
				return
			}
		}
	}
	require.Failf(t, "difference", "%q: ours %s (%v), %s %s", wire, ours, err, name, theirs)
}

// plain describes a value of RESP2 in words; ok is false for any other.
func plain(v resp.Value) (words string, ok bool) {
	if _, has := v.Attributes(); has {
		return "", false
	}
	switch v.Type() {
	case resp.SimpleString, resp.SimpleError:
		return fmt.Sprintf("%c%q", v.Type(), v.Bytes()), true
	case resp.Integer:
		i, _ := v.Int64()
		return fmt.Sprintf(":%d", i), true
	case resp.BulkString:
		if v.IsNull() {
			return "null", true
		}
		return fmt.Sprintf("$%q", v.Bytes()), true
	case resp.Array:
		if v.IsNull() {
			return "null", true
		}
		words := "["
		for e := range v.Elements() {
			w, ok := plain(e)
			if !ok {
				return "", false
			}
			words += w + " "
		}
		return words + "]", true
	}
	return "", false
}

// memoryConn is a connection whose peer has sent everything and closed.
type memoryConn struct {
	net.Conn
	*bytes.Reader
}

func (c memoryConn) Read(b []byte) (int, error)      { return c.Reader.Read(b) }
func (c memoryConn) Close() error                    { return nil }
func (c memoryConn) SetReadDeadline(time.Time) error { return nil }

// readRedigo returns the first reply in the words of plain, or "".
func readRedigo(wire []byte) string {
	c := redis.NewConn(memoryConn{Reader: bytes.NewReader(wire)}, 0, 0)
	defer c.Close()
	reply, err := c.Receive()
	if e := redis.Error(""); errors.As(err, &e) {
		return fmt.Sprintf("-%q", string(e))
	}
	if err != nil {
		return ""
	}
	return plainRedigo(reply)
}

func plainRedigo(reply any) string {
	switch reply := reply.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("+%q", reply)
	case []byte:
		return fmt.Sprintf("$%q", reply)
	case int64:
		return fmt.Sprintf(":%d", reply)
	case redis.Error:
		return fmt.Sprintf("-%q", string(reply))
	case []any:
		words := "["
		for _, e := range reply {
			words += plainRedigo(e) + " "
		}
		return words + "]"
	}
	panic(fmt.Sprintf("%T", reply))
}

// readRedcon returns the first reply in the words of plain, or "".
func readRedcon(wire []byte) string {
	n, reply := redcon.ReadNextRESP(wire)
	if n == 0 {
		return ""
	}
	return plainRedcon(reply)
}

func plainRedcon(reply redcon.RESP) string {
	switch reply.Type {
	case redcon.String, redcon.Error:
		return fmt.Sprintf("%c%q", reply.Type, reply.Data)
	case redcon.Integer:
		return fmt.Sprintf(":%d", reply.Int())
	case redcon.Bulk:
		if reply.Data == nil {
			return "null"
		}
		return fmt.Sprintf("$%q", reply.Data)
	}
	if reply.Count < 0 {
		return "null"
	}
	words := "["
	reply.ForEach(func(e redcon.RESP) bool {
		words += plainRedcon(e) + " "
		return true
	})
	return words + "]"
}
