//go:build !linux

package main

import (
	"os"
	"time"
)

// bootTime is the wall clock where there is no other that processes share everywhere.
func bootTime() int64 { return time.Now().UnixNano() }

// bootID is the machine's name where runs of it have none. The wall clock goes on over a restart.
func bootID() (id string, ok bool) {
	id, err := os.Hostname()
	return id, err == nil && id != ""
}
