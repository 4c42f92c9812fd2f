package redlock

import (
	"time"

	"github.com/redmux/redmux/internal/pure"
)

// An instant is a reading of all clocks at once: the wall clock, the monotonic one, which may stand still while the machine
// sleeps, and how long it has slept, where the system tells (R4, R13).
type instant struct {
	at    time.Time // wall and monotonic
	slept time.Duration
}

func readClocks() instant { return instant{time.Now(), slept()} }

// since is the time from one reading to another by the clock that says most. Being wrong this way can only cost a lock.
func (i instant) since(start instant) time.Duration {
	return max(pure.Elapsed(start.at, i.at), i.at.Sub(start.at)+i.slept-start.slept)
}

// ahead is by how much the other clocks have run ahead of the monotonic one since the start: what timers know nothing of.
func (i instant) ahead(start instant) (wall, slept time.Duration) {
	return i.at.Round(0).Sub(start.at.Round(0)) - i.at.Sub(start.at), i.slept - start.slept
}
