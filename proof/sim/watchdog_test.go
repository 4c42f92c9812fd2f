package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
