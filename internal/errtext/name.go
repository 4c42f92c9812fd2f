package errtext

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Name returns the name of a file or a resource for texts and JSON, which have
// UTF-8 only. A byte of anything else is shown as \xNN, and a backslash before
// an x as \x5c, so that no two names look the same. By itself encoding/json
// makes one of all such bytes.
func Name(name string) string {
	if utf8.ValidString(name) && !strings.Contains(name, `\x`) {
		return name
	}
	var b strings.Builder
	for i, r := range name {
		if Escapes(name, i, r) {
			fmt.Fprintf(&b, `\x%02x`, name[i])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Escapes reports whether Name shows the byte at i as \xNN. r is what begins
// there.
func Escapes(name string, i int, r rune) bool {
	if r == '\\' {
		return i+1 < len(name) && name[i+1] == 'x'
	}
	if r != utf8.RuneError {
		return false
	}
	_, size := utf8.DecodeRuneInString(name[i:])
	return size == 1
}

// JSON returns the text of an error for a JSON form, since an error has no
// fields: without the name of the package that made it, and "" for nil.
func JSON(err error) string {
	if err == nil {
		return ""
	}
	return Name(Text(err))
}
