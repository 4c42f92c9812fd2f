package pure

import "time"

const (
	// lookFirst is the first pause between looks at the seal of a quarantined
	// node. It doubles up to LookOften: another process may have watched for
	// longer.
	lookFirst = 100 * time.Millisecond
	// LookOften is the longest pause while the node is quarantined.
	LookOften = time.Second
	// LookRarely is the pause once the node is trusted, to notice that the keys
	// were flushed.
	LookRarely = 5 * time.Second
)

// Looks decides when one node's seal is read, and records what is under way. It
// is guarded by its owner's mutex.
type Looks struct {
	Next    time.Duration // when to look again
	delay   time.Duration // the last pause between looks
	Asking  bool          // a look is under way
	Writing bool          // a seal is being written
}

// FirstLooks returns the Looks of a node that joins. Its seal was just read.
func FirstLooks(now time.Duration) Looks { return Looks{Next: now + lookFirst, delay: lookFirst} }

// Plan sets the time of the look after one that is due now.
func (l *Looks) Plan(trusted bool, now time.Duration) {
	if trusted {
		l.delay = LookRarely
	} else {
		l.delay = min(2*l.delay, LookOften)
	}
	l.Next = now + l.delay
}

// Hasten makes the next look soon, unless it is sooner. It is called for a node
// that was sent the script that writes the seal again, and for one that is not
// believed.
func (l *Looks) Hasten(now time.Duration) { l.Next = min(l.Next, now+lookFirst) }
