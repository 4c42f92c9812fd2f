// Package clock has points in time that processes of one machine can tell each
// other: the end of a validity that an earlier process was granted, or that a
// guard must enforce.
package clock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Moment is a point in time by two clocks, in nanoseconds: the wall clock,
// and one that is never set and also counts while the machine sleeps.
type Moment struct{ Wall, Boot int64 }

// Now reads both clocks.
func Now() Moment { return Moment{time.Now().UnixNano(), bootTime()} }

// Add returns the moment m + d.
func (m Moment) Add(d time.Duration) Moment { return Moment{m.Wall + int64(d), m.Boot + int64(d)} }

// Sub returns the time from other to m, by the clock that gives less (R4).
func (m Moment) Sub(other Moment) time.Duration {
	return time.Duration(min(m.Wall-other.Wall, m.Boot-other.Boot))
}

// String returns two numbers with a space between them, which Parse reads.
func (m Moment) String() string { return fmt.Sprintf("%d %d", m.Wall, m.Boot) }

// Parse reads what String wrote.
func Parse(text string) (m Moment, err error) {
	wall, boot, ok := strings.Cut(text, " ")
	if !ok {
		return m, errors.New("no moment")
	}
	if m.Wall, err = strconv.ParseInt(wall, 10, 64); err != nil {
		return m, err
	}
	m.Boot, err = strconv.ParseInt(boot, 10, 64)
	return m, err
}
