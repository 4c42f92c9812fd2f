// Package probe asks one master what an operator wants to know: what it is, how
// it is set up, what this user may do there, and how its clock runs; and
// sentinels, or servers of a cluster, that lead to it, what they know. It changes
// nothing: commands that would write are tried on a key that does not exist, in
// a form that then does nothing.
//
// It does not know what the answers mean for locks, which is package doctor's
// business, nor how they are shown. A node is not trusted: package conn bounds
// its replies, only known lines of a text are kept, each short and printable,
// and impossible numbers are dropped. No value of a key is kept (R27).
//
// A Probe owns one connection, and belongs to one goroutine at a time. Facts
// and Samples are values that the caller owns.
package probe
