package sim

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/pure"
)

// Patience is how long a seed may take in real time without a beat. Most take
// less than a second; a seed that takes so much longer hangs.
const Patience = 2 * time.Minute

// A Dog is a watchdog of one seed.
type Dog struct {
	patience time.Duration
	bark     func(report string)
	seed     uint64
	timer    *time.Timer
	beats    atomic.Int64
	heard    int64 // beats when it last looked
}

// Watchdog returns a dog that panics if it hears no beat for the given time
// before it is stopped. The panic names the seed and has the stacks of all
// goroutines. Without it, a seed that hangs is found by the timeout of the whole
// run, which does not say which seed it was. A bubble of testing/synctest whose
// goroutines wait for a mutex is not found by the bubble itself, so Watchdog
// must be called outside of bubbles, where time is real.
func Watchdog(seed uint64, patience time.Duration) *Dog {
	return watchdog(seed, patience, func(report string) { panic(report) })
}

func watchdog(seed uint64, patience time.Duration, bark func(report string)) *Dog {
	d := &Dog{patience: patience, bark: bark, seed: seed}
	d.timer = time.AfterFunc(time.Hour, d.look)
	d.timer.Reset(max(pure.Soon, patience)) // look needs the timer
	return d
}

// Beat tells that the seed makes progress, however slowly: a busy machine may
// keep it from running for most of the time. It may be called in a bubble.
func (d *Dog) Beat() { d.beats.Add(1) }

// Stop ends the watch. It returns false if the dog has barked.
func (d *Dog) Stop() bool { return d.timer.Stop() }

func (d *Dog) look() {
	if beats := d.beats.Load(); beats != d.heard {
		d.heard = beats
		d.timer.Reset(max(pure.Soon, d.patience))
		return
	}
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	d.bark(fmt.Sprintf("sim: seed %d hangs: it makes no progress for %v\n\n%s", d.seed, d.patience, stacks))
}

func TestWatchdogNamesTheSeedThatHangs(t *testing.T) {
	reports := make(chan string, 1)
	started, hang := make(chan struct{}), make(chan struct{})
	defer close(hang)
	go hangsHere(started, hang)
	<-started
	dog := watchdog(17, time.Millisecond, func(report string) { reports <- report })
	report := <-reports
	require.False(t, dog.Stop())
	require.Contains(t, report, "seed 17 hangs")
	require.Contains(t, report, "hangsHere(")
}

func hangsHere(started, hang chan struct{}) {
	close(started)
	<-hang
}

func TestWatchdogOfASeedThatEnds(t *testing.T) {
	dog := watchdog(17, time.Hour, func(string) { t.Error("it was stopped") })
	require.True(t, dog.Stop())
}

// A busy machine is no reason to bark: a seed that takes much longer than the
// dog has patience is let go on while it makes progress.
func TestWatchdogOfASlowSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := make(chan string, 1)
		dog := watchdog(17, Patience, func(report string) { reports <- report })
		for range 100 {
			time.Sleep(Patience * 9 / 10)
			dog.Beat()
		}
		require.Empty(t, reports)
		time.Sleep(3 * Patience)
		require.Len(t, reports, 1)
		require.False(t, dog.Stop())
	})
}
