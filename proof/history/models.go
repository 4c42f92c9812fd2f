package history

import (
	"cmp"
	"slices"

	"github.com/anishathalye/porcupine"
)

// Models of locks for porcupine. Each is what one node with a perfect memory
// would do, which knows nothing of validity.

// A lockState is the state of a model.
type lockState struct {
	holder  attempt  // that excludes the others, or none
	members []member // readers, permits that are held, or places in the queue; in order
}

// A member is one of several holders, or of several that wait.
type member struct {
	id attempt
	// n is how many permits the holder knows of, or when a caller that waits
	// first knew its place.
	n int64
}

var noAttempt = attempt{source: -1}

type lockStep uint8

const (
	acquireStep  lockStep = iota
	resumeStep            // acquired again: it was held without a gap, and the client learned of it late
	extendStep            // needs the attempt to hold the lock
	exchangeStep          // a writer becomes a reader
	endStep
	queueStep // a caller's place in the queue begins to be certain
	leaveStep // and ceases to be
)

// A lockInput is an operation of an attempt.
type lockInput struct {
	step lockStep
	id   attempt
	from attempt // of upgrades and downgrades, the other attempt; else none
	// n is how many permits there are, or writes, or when the attempt for a fair
	// lock began or its place was first known.
	n int64
}

// writes is lockInput.n of one that excludes readers.
const writes = -1

// modelOf returns the model for locks of a form, which begins with a state.
func modelOf(form Form, initial lockState) porcupine.Model {
	step := stepLock
	switch form {
	case ReadForm, WriteForm:
		step = stepReadWrite
	case PermitForm:
		step = stepPermits
	case FairForm:
		step = stepQueue
	}
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(s, input, _ any) (bool, any) {
			in := input.(lockInput)
			ok, next := step(s.(lockState), in)
			return ok, next
		},
		Equal: func(a, b any) bool {
			one, other := a.(lockState), b.(lockState)
			return one.holder == other.holder && slices.Equal(one.members, other.members)
		},
	}
}

// stepLock is a lock with one holder.
func stepLock(s lockState, in lockInput) (bool, lockState) {
	switch in.step {
	case acquireStep, resumeStep:
		return s.holder == noAttempt, lockState{holder: in.id}
	case extendStep:
		return s.holder == in.id, s
	default:
		return s.holder == in.id, lockState{holder: noAttempt}
	}
}

// stepReadWrite is a lock with one writer, which may be one of the readers, or
// several readers. A writer's attempt is told from a reader's by its input: it
// is the holder.
func stepReadWrite(s lockState, in lockInput) (bool, lockState) {
	switch in.step {
	case acquireStep, resumeStep:
		if in.n == writes {
			alone := !slices.ContainsFunc(s.members, func(m member) bool { return m.id != in.from })
			return s.holder == noAttempt && alone, lockState{in.id, s.members}
		}
		return s.holder == noAttempt, s.with(in.id, 0)
	case exchangeStep:
		return s.holder == in.from, lockState{noAttempt, s.members}.with(in.id, 0)
	case extendStep:
		return s.holder == in.id || s.place(in.id) >= 0, s
	default:
		if s.holder == in.id {
			return true, lockState{noAttempt, s.members}
		}
		return s.place(in.id) >= 0, s.without(in.id)
	}
}

// stepPermits is a semaphore. Of different numbers of permits the most is what
// is never exceeded: see redlock.Client.Semaphore.
func stepPermits(s lockState, in lockInput) (bool, lockState) {
	switch in.step {
	case acquireStep, resumeStep:
		next, most := s.with(in.id, in.n), in.n
		for _, m := range s.members {
			most = max(most, m.n)
		}
		return int64(len(next.members)) <= most, next
	case extendStep:
		return s.place(in.id) >= 0, s
	default:
		return s.place(in.id) >= 0, s.without(in.id)
	}
}

// stepQueue is a lock with one holder and a queue. A caller gets the lock if no
// other is certain of a place that it knew before this one began. For a queue,
// comparing each two callers is enough: if no two are out of order, there is an
// order for all (Henzinger, Sezgin and Vafeiadis, "Aspect-Oriented
// Linearizability Proofs").
func stepQueue(s lockState, in lockInput) (bool, lockState) {
	switch in.step {
	case acquireStep:
		late := slices.ContainsFunc(s.members, func(m member) bool { return m.id != in.id && m.n < in.n })
		return s.holder == noAttempt && !late, lockState{in.id, s.members}
	case resumeStep:
		return s.holder == noAttempt, lockState{in.id, s.members}
	case extendStep:
		return s.holder == in.id, s
	case endStep:
		return s.holder == in.id, lockState{noAttempt, s.members}
	case queueStep:
		return true, s.with(in.id, in.n)
	default:
		return s.place(in.id) >= 0, s.without(in.id)
	}
}

// place returns the place of a member, or -1.
func (s lockState) place(id attempt) int {
	return slices.IndexFunc(s.members, func(m member) bool { return m.id == id })
}

// with adds a member, and keeps members in an order of their own, so that equal
// states are found to be.
func (s lockState) with(id attempt, n int64) lockState {
	i, _ := slices.BinarySearchFunc(s.members, id, func(m member, id attempt) int { return compareAttempts(m.id, id) })
	return lockState{s.holder, slices.Insert(slices.Clone(s.members), i, member{id, n})}
}

func (s lockState) without(id attempt) lockState {
	return lockState{s.holder, slices.DeleteFunc(slices.Clone(s.members), func(m member) bool { return m.id == id })}
}

func compareAttempts(a, b attempt) int {
	return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.client, b.client), cmp.Compare(a.number, b.number))
}
