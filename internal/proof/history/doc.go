// Package history records what clients of locks saw, and judges it afterwards.
//
// A history is a file of JSON lines, one Event each, as `loadgen --history` writes it. Its times are nanoseconds of the
// system's monotonic clock, so that the histories of several processes of one machine can be laid side by side:
//
//	Writer     writes events, from any number of goroutines; Note also takes the time and digests the token (R27)
//	Read       reads one file; Merge puts several into one order of time
//	Exclusion  finds two holders of one resource at a time, in one pass, with memory for the live holders only
//	Locks      asks porcupine whether what clients saw of each lock could have happened in some order at all
//	Accesses   does the same for registers, which are no locks: they show replies that were mixed up
//
// The two checkers look at the same thing from two sides. Exclusion compares intervals: it is exact about time and knows
// what a grant claims. Porcupine knows nothing of validity but what `until` says, and finds what intervals cannot show: an
// answer that belongs to another question.
//
// # What a history can show
//
// A grant is written after the call returned and a release before it is called, so that the interval between them is what
// the client may rely on, and never more: a violation that is found is one. What is missed is the time in which a lock was
// decided, but not yet told. A process that is killed loses what it had not written yet; a lost release would make its
// interval longer than it was. So a process that is going to be killed writes each line at once: see NewWriter. And whoever
// is told a loss later than it was known, as by a context that ended, notes it for the moment at which it last found its
// hold sound: others may have been granted the lock since.
//
// The package knows nothing of redlock and multiplex: whoever records gives it bytes, strings and times. The command
// checkhistory (internal/proof/history/cmd/checkhistory) checks files.
package history
