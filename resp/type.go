package resp

import "strconv"

// Type is the kind of a [Value]: the byte that begins its encoding.
type Type byte

// The fifteen types, in the order of the protocol specification. Each is the
// byte on the wire.
const (
	SimpleString   Type = '+'
	SimpleError    Type = '-'
	Integer        Type = ':'
	BulkString     Type = '$'
	Array          Type = '*'
	Null           Type = '_'
	Boolean        Type = '#'
	Double         Type = ','
	BigNumber      Type = '('
	BulkError      Type = '!'
	VerbatimString Type = '='
	Map            Type = '%'
	Attribute      Type = '|'
	Set            Type = '~'
	Push           Type = '>'
)

// String returns the name of the type in the specification's terms.
func (t Type) String() string {
	if name := types[t].name; name != "" {
		return name
	}
	return "Type(" + strconv.QuoteRune(rune(t)) + ")"
}

// form says how the bytes behind a type's first line are to be read.
type form byte

const (
	unknown   form = iota
	line           // the line is all there is
	bulk           // the line is a length, a payload follows
	aggregate      // the line is a count, elements follow
)

// poisonByte begins no value. Race builds overwrite with it what was taken back.
const poisonByte = 0xDB

// types is the grammar's only list of types; a byte that is absent begins no
// value.
var types = [256]struct {
	name string
	form form
}{
	SimpleString:   {"SimpleString", line},
	SimpleError:    {"SimpleError", line},
	Integer:        {"Integer", line},
	BulkString:     {"BulkString", bulk},
	Array:          {"Array", aggregate},
	Null:           {"Null", line},
	Boolean:        {"Boolean", line},
	Double:         {"Double", line},
	BigNumber:      {"BigNumber", line},
	BulkError:      {"BulkError", bulk},
	VerbatimString: {"VerbatimString", bulk},
	Map:            {"Map", aggregate},
	Attribute:      {"Attribute", aggregate},
	Set:            {"Set", aggregate},
	Push:           {"Push", aggregate},
}

// form is looked up for every value, hence without a call.
func (t Type) form() form { return types[t].form }
