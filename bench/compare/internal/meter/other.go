//go:build !linux

package meter

import "time"

// ProcessCPU returns ErrUnknown.
func ProcessCPU(int) (time.Duration, error) { return 0, ErrUnknown }

// CountSyscalls returns ErrUnknown.
func CountSyscalls(int, time.Duration) (n int64, byName map[string]int64, err error) {
	return 0, nil, ErrUnknown
}
