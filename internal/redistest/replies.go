package redistest

import (
	"fmt"
	"strings"

	"github.com/redmux/redmux/resp"
)

// encode appends what a script returned. It panics on a type that Script does
// not name: the test is wrong.
func (c *call) encode(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, c.null()...)
	case bool:
		// As Lua's booleans: true is 1, false is null.
		if !v {
			return append(b, c.null()...)
		}
		return resp.AppendInteger(b, 1)
	case int:
		return resp.AppendInteger(b, int64(v))
	case int64:
		return resp.AppendInteger(b, v)
	case string:
		return resp.AppendBulkString(b, v)
	case error:
		return resp.AppendSimpleError(b, v.Error())
	case []any:
		return encodeAll(c, b, v)
	case []int64:
		return encodeAll(c, b, v)
	case []string:
		return encodeAll(c, b, v)
	}
	panic(fmt.Sprintf("redistest: a script returned %T", v))
}

// encodeAll makes an array of what has one type.
func encodeAll[T any](c *call, b []byte, all []T) []byte {
	b = resp.AppendArray(b, len(all))
	for _, v := range all {
		b = c.encode(b, v)
	}
	return b
}

// null differs between the protocols, and a client must take both.
func (c *call) null() []byte {
	if c.s.proto == 3 {
		return resp.AppendNull(nil)
	}
	return resp.AppendNullBulkString(nil)
}

// verbatim is how INFO and CLIENT INFO answer in RESP3.
func (c *call) verbatim(s string) []byte {
	if c.s.proto == 3 {
		return resp.AppendVerbatimString(nil, "txt", s)
	}
	return resp.AppendBulkString(nil, s)
}

// mapHeader is a map in RESP3 and a flat array in RESP2.
func (c *call) mapHeader(b []byte, pairs int) []byte {
	if c.s.proto == 3 {
		return resp.AppendMap(b, pairs)
	}
	return resp.AppendArray(b, 2*pairs)
}

// bulks appends several bulk strings.
func bulks(b []byte, all ...string) []byte {
	for _, s := range all {
		b = resp.AppendBulkString(b, s)
	}
	return b
}

// ok, fail, integer and boolean are the replies that need no context.
func ok() []byte { return resp.AppendSimpleString(nil, "OK") }

func fail(text string) []byte { return resp.AppendSimpleError(nil, text) }

// failf formats; AppendSimpleError makes line ends in the text harmless.
func failf(format string, args ...any) []byte { return fail(fmt.Sprintf(format, args...)) }

func integer(n int) []byte { return resp.AppendInteger(nil, int64(n)) }

// boolean is 1 or 0: the commands of RESP2 keep these in RESP3.
func boolean(b bool) []byte {
	if b {
		return integer(1)
	}
	return integer(0)
}

// unknownCommand quotes the arguments as a real server does, cut short: clients
// that look for their own text in an error find it here too.
func unknownCommand(args []string) []byte {
	var rest strings.Builder
	for _, a := range args[1:] {
		fmt.Fprintf(&rest, "'%.40s' ", a)
	}
	return failf("ERR unknown command '%.128s', with args beginning with: %.128s", args[0], rest.String())
}

func unknownSubcommand(command, sub string) []byte {
	return failf("ERR unknown subcommand '%.128s'. Try %s HELP.", sub, command)
}

// wrongNumber names a subcommand as "script|load".
func wrongNumber(command string) []byte {
	return failf("ERR wrong number of arguments for '%s' command", command)
}
