package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A moment is a time that two processes of one machine understand: by the wall clock, and by one that also counts sleep and is
// not set, in nanoseconds.
type moment struct{ wall, boot int64 }

func now() moment { return moment{time.Now().UnixNano(), bootTime()} }

func (m moment) add(d time.Duration) moment { return moment{m.wall + int64(d), m.boot + int64(d)} }

// sub is the time from other to m by the clock that says least (R4).
func (m moment) sub(other moment) time.Duration {
	return time.Duration(min(m.wall-other.wall, m.boot-other.boot))
}

func (m moment) String() string { return fmt.Sprintf("%d %d", m.wall, m.boot) }

func parseMoment(text string) (m moment, err error) {
	wall, boot, ok := strings.Cut(text, " ")
	if !ok {
		return m, errors.New("no moment")
	}
	if m.wall, err = strconv.ParseInt(wall, 10, 64); err != nil {
		return m, err
	}
	m.boot, err = strconv.ParseInt(boot, 10, 64)
	return m, err
}
