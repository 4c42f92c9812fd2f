package resp

import "unsafe"

// Poisoned says whether this build overwrites views that were taken back.
const Poisoned = poisoned

// Held returns the bytes of memory that a Reader holds.
func Held(r *Reader) int {
	return int(unsafe.Sizeof(*r)) + cap(r.buf) + cap(r.stack)*int(unsafe.Sizeof(frame{}))
}

// Unjudged returns how many bytes of a line Next has not looked at or would
// look at again.
func Unjudged(r *Reader) int {
	if r.head.size != 0 {
		return 0 // the line was read; its payload needs no look until it is there
	}
	return max(0, r.Buffered()-r.scan-r.seen)
}
