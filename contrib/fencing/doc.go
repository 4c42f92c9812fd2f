// Package fencing is for the protected side of a fenced lock (docs/fencing.md):
// what is written to compares the number of the lock, redlock.Lock.Fence, with
// the highest one that it has seen, and refuses a lower one. So a holder that
// was paused past its validity, and does not know it, does no harm.
//
// The comparison is one atomic step with the write, in the system that is
// written to. This package has the parts that are easily got wrong:
//
//	Redis          RedisScript runs any command under a number
//	SQL            Changed reports a statement that changed no row
//	HTTP           SetHeader sends the number, FromHeader reads it
//	object stores  WriteObject reads, compares, and writes on a condition
//
// Refused recognises the refusal of each. The package keeps nothing, connects
// to nothing, and starts no goroutine.
package fencing
