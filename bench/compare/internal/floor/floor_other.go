//go:build !linux

package floor

import (
	"errors"
	"time"
)

// Supported says whether this system has a floor.
const Supported = false

// Floor is a lone caller.
type Floor struct{ Wait Waiting }

var errSystem = errors.New("floor: not known on this system")

// Open returns an error: the floor is measured with Linux's system calls.
func Open([]string) (*Floor, error) { return nil, errSystem }

// Pair returns an error.
func (f *Floor) Pair(string, time.Duration) error { return errSystem }

// Close does nothing.
func (f *Floor) Close() error { return nil }
