package load

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fault is what --fault does to a server during a run.
type fault struct {
	at     time.Duration // from the start of measuring
	kind   string        // of faultKinds
	node   int           // from 0
	length time.Duration
}

// errFault describes the syntax of --fault.
var errFault = errors.New(`want AT:KIND:NODE:FOR, as "3s:stop:2:1s", with KIND one of ` + strings.Join(faultKindNames(), ", "))

// UnmarshalText reads "3s:stop:2:1s".
func (f *fault) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ":")
	if len(parts) != 4 {
		return errFault
	}
	at, err1 := time.ParseDuration(parts[0])
	node, err2 := strconv.Atoi(parts[2])
	length, err3 := time.ParseDuration(parts[3])
	_, known := faultKinds[parts[1]]
	if err1 != nil || err2 != nil || err3 != nil || !known || at < 0 || node < 0 || length < time.Millisecond {
		return errFault
	}
	*f = fault{at, parts[1], node, length}
	return nil
}

// String returns the form that UnmarshalText reads.
func (f fault) String() string { return fmt.Sprintf("%v:%s:%d:%v", f.at, f.kind, f.node, f.length) }

// validateFaults refuses faults that are impossible, or that would not show.
func (f *flags) validateFaults() error {
	if len(f.Fault) > 0 && (f.Embedded || len(f.Nodes) > 0) {
		return errors.New("--fault is for servers that are started here, not for --embedded or --nodes")
	}
	for i, a := range f.Fault {
		switch {
		case a.node >= f.spawned():
			return fmt.Errorf("--fault %v: nodes are numbered from 0 to %d", a, f.spawned()-1)
		case a.at >= f.Duration:
			return fmt.Errorf("--fault %v comes after the run's end at %v", a, f.Duration)
		case a.kind == "kill" && f.User != "":
			// A restarted server refuses the clients' credentials until it
			// knows the user, and the clients then wait long before they dial
			// again.
			return errors.New("--fault: a server that is killed forgets --user")
		}
		for _, b := range f.Fault[:i] {
			if a.node == b.node && a.at < b.at+b.length && b.at < a.at+a.length {
				return fmt.Errorf("--fault %v and %v hit one node at one time", b, a)
			}
		}
	}
	slices.SortStableFunc(f.Fault, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return nil
}
