//go:build race

package resp

// poisoned reports whether the bytes of ended views are overwritten.
const poisoned = true

// poison overwrites the bytes of ended views (R20). A slice that is used too
// late then shows nonsense in place of an old reply, a Value panics, and the
// race detector reports a use by another goroutine.
func poison(b []byte) {
	for i := range b {
		b[i] = poisonByte
	}
}
