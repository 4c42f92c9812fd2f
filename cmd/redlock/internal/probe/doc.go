// Package probe asks one master what an operator wants to know of it: what it is, how it is set up, what this user may do
// there, and how its clock goes. It changes nothing: the commands that would write are put to a key that is not there, in a
// form that then does nothing.
//
// It knows nothing of what the answers mean for locks, which is package doctor's business, and nothing of how they are shown.
// What a node says is hostile: its replies are bounded by package conn, of a text only known lines are kept, each of them
// short and printable, and a number that cannot be is no number. No value of a key is kept (R27).
//
// A Probe owns one connection, and belongs to one goroutine at a time. Facts and Samples are values, and the caller's.
package probe
