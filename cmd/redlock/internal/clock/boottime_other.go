//go:build !linux

package clock

import (
	"os"
	"time"
)

// bootTime returns the wall clock: not every system has another clock that
// processes share.
func bootTime() int64 { return time.Now().UnixNano() }

// BootID names the machine, since its runs have no names here. The wall clock
// goes on over a restart. ok reports whether the name is known.
func BootID() (id string, ok bool) {
	id, err := os.Hostname()
	return id, err == nil && id != ""
}
