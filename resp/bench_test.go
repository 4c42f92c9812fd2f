package resp_test

import (
	"strings"
	"testing"

	"github.com/redmux/redmux/resp"
)

// BenchmarkNext decodes one reply of each kind that a lock client meets, from a
// buffer full of them.
func BenchmarkNext(b *testing.B) {
	cases := []struct{ name, wire string }{
		{"OK", "+OK\r\n"},
		{"integer", ":1\r\n"},
		{"null", "_\r\n"},
		{"null bulk", "$-1\r\n"},
		{"error", "-NOSCRIPT No matching script. Please use EVAL.\r\n"},
		{"bulk=20", "$20\r\n" + strings.Repeat("x", 20) + "\r\n"},
		{"array=2", "*2\r\n:1\r\n:0\r\n"},
		{"array=64", "*64\r\n" + strings.Repeat(":1\r\n", 64)},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			const batch = 7 << 10
			wire := []byte(strings.Repeat(c.wire, batch/len(c.wire)))
			r := resp.NewReader(resp.Limits{})
			b.ReportAllocs()
			for b.Loop() {
				_, ok, err := r.Next()
				if err != nil {
					b.Fatal(err)
				}
				if !ok {
					r.Commit(copy(r.Space(), wire))
				}
			}
		})
	}
}

func BenchmarkElements(b *testing.B) {
	r := resp.NewReader(resp.Limits{})
	r.Commit(copy(r.Space(), "*64\r\n"+strings.Repeat(":1\r\n", 64)))
	v, _, _ := r.Next()
	b.ReportAllocs()
	for b.Loop() {
		sum := int64(0)
		for e := range v.Elements() {
			n, _ := e.Int64()
			sum += n
		}
		if sum != 64 {
			b.Fatal(sum)
		}
	}
}

func BenchmarkAppendCommand(b *testing.B) {
	token := string(make([]byte, 20))
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = resp.AppendCommand(dst[:0], "SET", "invoice:7", token, "NX", "PX", "10000")
	}
}
