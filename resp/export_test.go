package resp

import "unsafe"

// Poisoned reports whether this build overwrites views that are no longer
// valid.
const Poisoned = poisoned

// Held returns the bytes of memory that a Reader holds.
func Held(r *Reader) int {
	return int(unsafe.Sizeof(*r)) + cap(r.buf) + cap(r.stack)*int(unsafe.Sizeof(frame{}))
}

// Unjudged returns how many bytes of a line Next has not parsed, or would parse
// again.
func Unjudged(r *Reader) int {
	if r.head.size != 0 {
		return 0 // the line was read; its payload is parsed once it is complete
	}
	return max(0, r.Buffered()-r.scan-r.seen)
}
