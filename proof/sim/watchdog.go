package sim

import (
	"fmt"
	"runtime"
	"time"
)

// Patience is how long a seed may take in real time. Most take less than a
// second; a seed that takes so much longer hangs.
const Patience = 2 * time.Minute

// Watchdog panics if stop is not called within the given time. The panic names
// the seed and has the stacks of all goroutines. Without it, a seed that hangs
// is found by the timeout of the whole run, which does not say which seed it
// was. A bubble of testing/synctest whose goroutines wait for a mutex is not
// found by the bubble itself, so it must be called outside of bubbles, where
// time is real.
func Watchdog(seed uint64, patience time.Duration) (stop func() bool) {
	return watchdog(seed, patience, func(report string) { panic(report) })
}

func watchdog(seed uint64, patience time.Duration, bark func(report string)) (stop func() bool) {
	return time.AfterFunc(patience, func() {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		bark(fmt.Sprintf("sim: seed %d hangs: it is not through after %v\n\n%s", seed, patience, stacks))
	}).Stop
}
