package pure

import "time"

// What remains of a lock when one caller of a client hands it to the next. left
// is what remains of the validity that a quorum has confirmed, and whole what a
// new grant would have at its start, for the TTL that the next caller asked for.

// WorthHandingOver reports whether enough is left: half of the whole.
func WorthHandingOver(left, whole time.Duration) bool { return left > 0 && left >= whole/2 }

// Young reports whether so much is left that no extension is needed yet: nine
// tenths. So of the grants that follow one another quickly most cost the nodes
// nothing, and a lock with a short TTL is extended once for many of them.
func Young(left, whole time.Duration) bool { return left >= whole/10*9 }

// Added returns the sum of an age, which may be Never, and a time.
func Added(age, d time.Duration) time.Duration {
	if age == Never || d > 0 && age >= Never-d {
		return Never
	}
	return age + d
}
