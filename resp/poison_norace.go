//go:build !race

package resp

// poisoned reports that the bytes of views that have ended are overwritten.
const poisoned = false

// poison does nothing in builds without the race detector.
func poison([]byte) {}
