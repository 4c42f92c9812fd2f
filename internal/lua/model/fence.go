package model

import (
	"errors"
	"strconv"
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// The codes that acquire_fenced.lua returns.
const (
	Held         = iota // by any key
	Granted             // and it counts
	Stale               // the number is too low
	Ahead               // the number is too high
	GrantedBlind        // the node has no floor
)

// A Fenced is the arguments of acquire_fenced.lua.
type Fenced struct {
	Locks, Lasts []string // the keys: of one resource or several
	Record       string   // the key
	Token        string
	TTL          time.Duration
	Number, Lead int64
	Period       time.Duration
}

// A FencedAnswer is what acquire_fenced.lua returns.
type FencedAnswer struct {
	Code   int
	Number int64
	Holder int // where the first key is that is in the way, if Held
}

const (
	// fenceMargin is for how long a last number outlives a period.
	fenceMargin = time.Hour
	// curAhead is how far ahead of a number Record.Cur is written.
	curAhead = 1_000_000
)

// AcquireFenced is acquire_fenced.lua, at the given time by the node's clock.
// ok is false if a key holds something else.
func AcquireFenced(db Keys[string, string], a Fenced, now time.Time) (answer FencedAnswer, ok bool) {
	r := pure.Record{Run: pure.NoRun, Floor: pure.NoFloor, Period: now.UnixMilli() / a.Period.Milliseconds()}
	period := r.Period
	if text, there := db.Get(a.Record); there {
		var err error
		if r, err = pure.ParseRecord(text); err != nil {
			return answer, false
		}
	}
	if r.Period != period {
		r.Prev, r.Cur, r.Period = max(r.Prev, r.Cur), 0, period
	}
	last := max(r.Floor, 0)
	for _, key := range a.Lasts {
		own := r.Prev
		if text, there := db.Get(key); there {
			n, err := strconv.ParseUint(text, 10, 53)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return answer, false
			}
			own = min(int64(n), r.High())
		}
		last = max(last, own)
	}
	for i, key := range a.Locks {
		if _, there := db.Get(key); there {
			return FencedAnswer{Held, last, i}, true
		}
	}
	if a.Number <= last {
		return FencedAnswer{Code: Stale, Number: last}, true
	}
	if most := max(now.UnixMicro(), r.High()); a.Number > most+a.Lead {
		return FencedAnswer{Code: Ahead, Number: most}, true
	}
	if a.Number > r.Cur {
		r.Cur = min(a.Number+curAhead, pure.LastNumber)
		db.Set(a.Record, r.String(), 0)
	}
	for i := range a.Locks {
		db.Set(a.Lasts[i], strconv.FormatInt(a.Number, 10), a.Period+fenceMargin)
		db.Set(a.Locks[i], a.Token, a.TTL)
	}
	if r.Floor == pure.NoFloor {
		return FencedAnswer{Code: GrantedBlind, Number: last}, true
	}
	return FencedAnswer{Code: Granted, Number: last}, true
}

// NoMost is the most of Floor without an operator.
const NoMost = -1

// Floor is floor.lua. ok is false if the record holds something else.
func Floor(db Keys[string, string], record, seal, expected, run string, floor, most int64) (done, ok bool) {
	if text, there := db.Get(seal); !there || text != expected {
		return false, true
	}
	r := pure.Record{Floor: pure.NoFloor}
	if text, there := db.Get(record); there {
		var err error
		r, err = pure.ParseRecord(text)
		switch {
		case err != nil && most == NoMost:
			return false, false
		case err != nil, most != NoMost && r.High() > most:
			r = pure.Record{Floor: pure.NoFloor}
		}
	}
	r.Run, r.Floor = run, max(r.Floor, floor)
	db.Set(record, r.String(), 0)
	return true, true
}
