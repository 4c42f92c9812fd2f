package pure

import (
	"errors"
	"strconv"
)

// A Record is what a node remembers of the fencing numbers that it granted, for
// all resources together (docs/internals/fencing.md). It is stored as text:
// "redlock-fence 1 run_id=… floor=… period=20417 cur=… prev=…".
type Record struct {
	// Run is the name of the floor's process, "-" without the right to ask
	// for its run id. Floor is the least value of a missing number, and
	// NoFloor for a node that was given none.
	Run   string
	Floor int64
	// Cur is not lower than any number granted in Period, and Prev than any of
	// earlier periods.
	Period, Cur, Prev int64
}

const (
	// NoFloor is the floor of a node that has none.
	NoFloor = -1
	// LastNumber is the highest fencing number: scripts compute with 53 bits.
	LastNumber = 1<<53 - 1
)

const recordHead = "redlock-fence 1 "

// String returns the value of the key.
func (r Record) String() string {
	floor := "-"
	if r.Floor != NoFloor {
		floor = strconv.FormatInt(r.Floor, 10)
	}
	return recordHead + "run_id=" + r.Run + " floor=" + floor + " period=" + strconv.FormatInt(r.Period, 10) +
		" cur=" + strconv.FormatInt(r.Cur, 10) + " prev=" + strconv.FormatInt(r.Prev, 10)
}

// High returns a number not lower than any that the node remembers.
func (r Record) High() int64 { return max(r.Cur, r.Prev, r.Floor, 0) }

// Floored reports whether the record's floor is that of a process, by its name.
// A replica's coming or leaving changes the name and no number. After a
// promotion, the record may have come by replication, from a server that lags.
func (r Record) Floored(process string, durable bool) bool {
	switch {
	case r.Floor == NoFloor:
		return false
	case durable && survives(r.Run, process):
		return true
	case process == "":
		return false
	case promoted(process):
		return r.Run == process
	}
	return runOf(r.Run) == runOf(process)
}

// errRecord is returned for a value that is no record, or of an unknown
// version.
var errRecord = errors.New("not a record of fencing numbers")

// ParseRecord reads a record. It accepts only what String returns.
func ParseRecord(text string) (Record, error) {
	p := scanner{rest: text}
	p.skip(recordHead + "run_id=")
	r := Record{Run: p.word(" floor="), Floor: NoFloor}
	if floor := p.until(" period="); floor != "-" {
		r.Floor = p.number(floor, LastNumber)
	}
	r.Period = p.number(p.until(" cur="), LastNumber)
	r.Cur = p.number(p.until(" prev="), LastNumber)
	r.Prev = p.number(p.rest, LastNumber)
	if p.failed {
		return Record{}, errRecord
	}
	return r, nil
}
