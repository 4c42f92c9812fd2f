// Package history records what clients of locks saw, and checks it afterwards.
//
// A history is a file of JSON lines, one Event each, as `loadgen --history`
// writes it. Its times are nanoseconds of the system's monotonic clock, so that
// histories of several processes of one machine can be merged:
//
//	Writer     writes events, from any number of goroutines
//	Read       reads one file; Merge puts several into one order of time
//	Exclusion  finds two holders of one resource at a time, or more than may
//	           share it, in one pass, with memory for the live holders only; and
//	           fencing numbers and callers in queues that are out of order
//	Locks      asks porcupine whether what clients saw of each lock with one
//	           holder could have happened in some order at all
//
// The two checkers look at the same history from two sides. Exclusion compares
// intervals: it is exact about time and knows what a grant claims. Porcupine
// knows nothing of validity except `until`, and finds what intervals cannot
// show: an answer that belongs to another request.
//
// # What a history can show
//
// A grant is recorded after the call returns and a release before it is called.
// The interval between them is at most the time in which the client may rely on
// the lock, so every reported violation is real. What goes unseen is the time
// between the decision about a lock and its report to the caller. A process
// that is killed loses the events that it has not written; a lost release would
// make the interval longer than it was. So a process that is going to be killed
// sends each event at once to one that writes it. And a client that learns of a
// loss late, as from a context that ended, records the loss at the last moment
// at which it found its hold sound: others may have been granted the lock since
// then.
//
// The package knows nothing of redlock and multiplex: the recording program
// passes it bytes, strings and times. The command checkhistory
// (proof/history/cmd/checkhistory) checks files.
package history
