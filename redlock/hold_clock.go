package redlock

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// An instant is a reading of all clocks at once: the wall clock, the monotonic
// one, which may stand still during a sleep of the machine, and the time slept,
// where the system tells (R4, R13).
type instant struct {
	at    time.Time // wall and monotonic
	slept time.Duration
}

func readClocks() instant { return instant{time.Now(), slept()} }

// since returns the time from one reading to another, the most by any clock. An
// error in this direction can only cost a lock.
func (i instant) since(start instant) time.Duration {
	return max(pure.Elapsed(start.at, i.at), i.at.Sub(start.at)+i.slept-start.slept)
}

// ahead returns by how much the other clocks have run ahead of the monotonic
// one since start. Timers do not follow them.
func (i instant) ahead(start instant) (wall, slept time.Duration) {
	return i.at.Round(0).Sub(start.at.Round(0)) - i.at.Sub(start.at), i.slept - start.slept
}

// left returns the time from now to i, the least by any clock.
func (i instant) left(now instant) time.Duration {
	return min(pure.Remaining(i.at, now.at), i.at.Sub(now.at)-(now.slept-i.slept))
}
