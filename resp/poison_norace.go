//go:build !race

package resp

// poisoned says that views which were taken back are overwritten.
const poisoned = false

// poison does nothing in builds without the race detector.
func poison([]byte) {}
