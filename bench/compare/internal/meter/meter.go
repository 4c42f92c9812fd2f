// Package meter measures what a process costs its machine, from outside and while it runs: processor time and system calls.
// It knows nothing of locks and servers. Only Linux tells one process so much about another; elsewhere its functions
// return [ErrUnknown].
package meter

import "errors"

// ErrUnknown is returned for what cannot be measured on this system.
var ErrUnknown = errors.New("meter: not known on this system")
