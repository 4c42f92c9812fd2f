package pure

import "time"

// Decisions about a lock that one caller of a client hands to the next. left is
// what remains of the validity that a quorum has confirmed. whole is the
// validity that a new grant would have at its start, with the next caller's
// TTL.

// WorthHandingOver reports whether enough is left: half of the whole.
func WorthHandingOver(left, whole time.Duration) bool { return left > 0 && left >= whole/2 }

// Young reports whether no extension is needed yet: nine tenths are left. So
// when grants follow one another quickly, most cost the nodes nothing, and even
// a lock with a short TTL is extended once for many of them.
func Young(left, whole time.Duration) bool { return left >= whole/10*9 }

// Added returns the sum of an age and a time. It is Never for that age, and for
// a sum that would overflow.
func Added(age, d time.Duration) time.Duration {
	if age == Never || d > 0 && age >= Never-d {
		return Never
	}
	return age + d
}
