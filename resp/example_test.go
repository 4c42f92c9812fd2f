package resp_test

import (
	"fmt"
	"strings"

	"github.com/redmux/redmux/resp"
)

// A Reader returns each value once it is complete. Here the second one arrives
// in two parts.
func Example() {
	r := resp.NewReader(resp.Limits{})
	for _, received := range []string{"+OK\r\n*2\r\n:1\r\n$5\r\nhel", "lo\r\n"} {
		if _, err := r.Fill(strings.NewReader(received)); err != nil {
			fmt.Println(err)
			return
		}
		for {
			v, ok, err := r.Next()
			if err != nil {
				fmt.Println(err)
				return
			}
			if !ok {
				break // more bytes are needed
			}
			fmt.Println(v.Type(), v.IsOK(), v.Len())
			for e := range v.Elements() {
				fmt.Printf("  %v %q\n", e.Type(), e.Raw())
			}
		}
	}
	// Output:
	// SimpleString true 0
	// Array false 2
	//   Integer ":1\r\n"
	//   BulkString "$5\r\nhello\r\n"
}

// A command is an array of bulk strings. No byte of an argument can end it
// early.
func ExampleAppendCommand() {
	buf := make([]byte, 0, 128)
	buf = resp.AppendCommand(buf, "SET", "invoice:7", "a\r\nb", "NX", "PX", "10000")
	fmt.Printf("%q\n", buf)
	// Output:
	// "*6\r\n$3\r\nSET\r\n$9\r\ninvoice:7\r\n$4\r\na\r\nb\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n10000\r\n"
}
