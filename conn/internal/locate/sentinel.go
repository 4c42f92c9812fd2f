package locate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redmux/redmux/resp"
)

// longestName bounds the name of a master.
const longestName = 256

// IsName reports whether sentinels may know a master by the name.
func IsName(name string) bool {
	never := func(c rune) bool {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		return !letter && !strings.ContainsRune(".-_", c)
	}
	return name != "" && len(name) <= longestName && strings.IndexFunc(name, never) < 0
}

// ErrNoMaster is returned for a sentinel that does not know the name.
var ErrNoMaster = errors.New("it knows no master of this name")

// Master returns the address in the answer to SENTINEL GET-MASTER-ADDR-BY-NAME:
// a host and a port, or null.
func Master(v resp.Value) (string, error) {
	if v.IsNull() {
		return "", ErrNoMaster
	}
	if v.Type() != resp.Array || v.Len() != 2 {
		return "", unreadable(v)
	}
	var parts []string
	for e := range v.Elements() {
		parts = append(parts, string(e.Bytes()))
	}
	return Address(parts[0], parts[1])
}

// SwitchMaster is the channel on which sentinels say that a master is another
// server now.
const SwitchMaster = "+switch-master"

// Switched reports whether a message says that the master of the name is
// another server now: "message", the channel, and "name ip port ip port".
func Switched(v resp.Value, name string) bool {
	if v.IsNull() || v.Type() != resp.Array || v.Len() != 3 {
		return false
	}
	var parts [3]string
	i := 0
	for e := range v.Elements() {
		parts[i] = string(e.Bytes())
		i++
	}
	return parts[0] == "message" && parts[1] == SwitchMaster && strings.HasPrefix(parts[2], name+" ")
}

// unreadable returns the error for an answer of another form.
func unreadable(v resp.Value) error {
	return fmt.Errorf("its answer of type %v cannot be read", v.Type())
}
