package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatchdogNamesTheSeedThatHangs(t *testing.T) {
	reports := make(chan string, 1)
	started, hang := make(chan struct{}), make(chan struct{})
	defer close(hang)
	go hangsHere(started, hang)
	<-started
	stop := watchdog(17, time.Millisecond, func(report string) { reports <- report })
	report := <-reports
	require.False(t, stop())
	require.Contains(t, report, "seed 17 hangs")
	require.Contains(t, report, "hangsHere(")
}

func hangsHere(started, hang chan struct{}) {
	close(started)
	<-hang
}

func TestWatchdogOfASeedThatEnds(t *testing.T) {
	stop := watchdog(17, time.Hour, func(string) { t.Error("it was stopped") })
	require.True(t, stop())
}
