//go:build race

package resp

// poisoned says that views which were taken back are overwritten.
const poisoned = true

// poison overwrites bytes whose views have ended (R20). A slice that is still held
// then shows nonsense instead of a plausible old reply, a Value panics, and a reader
// on another goroutine is reported by the race detector.
func poison(b []byte) {
	for i := range b {
		b[i] = poisonByte
	}
}
