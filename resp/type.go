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

// form is what follows a type's first line.
type form byte

const (
	formUnknown   form = iota
	formLine           // nothing: the line holds the value
	formBulk           // a payload, whose length the line holds
	formAggregate      // elements, whose number the line holds
)

// poisonByte begins no value. Race builds overwrite the bytes of ended views
// with it.
const poisonByte = 0xDB

// types is the grammar's only list of types. A byte that is not in it begins no
// value.
var types = [256]struct {
	name string
	form form
}{
	SimpleString:   {"SimpleString", formLine},
	SimpleError:    {"SimpleError", formLine},
	Integer:        {"Integer", formLine},
	BulkString:     {"BulkString", formBulk},
	Array:          {"Array", formAggregate},
	Null:           {"Null", formLine},
	Boolean:        {"Boolean", formLine},
	Double:         {"Double", formLine},
	BigNumber:      {"BigNumber", formLine},
	BulkError:      {"BulkError", formBulk},
	VerbatimString: {"VerbatimString", formBulk},
	Map:            {"Map", formAggregate},
	Attribute:      {"Attribute", formAggregate},
	Set:            {"Set", formAggregate},
	Push:           {"Push", formAggregate},
}

// form is called for every value, and inlined.
func (t Type) form() form { return types[t].form }
