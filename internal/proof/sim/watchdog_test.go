package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatchdogNamesTheSeedThatHangs(t *testing.T) {
	reports := make(chan string, 1)
	hang := make(chan struct{})
	defer close(hang)
	go func() { hangsHere(hang) }()
	stop := watchdog(17, time.Millisecond, func(report string) { reports <- report })
	report := <-reports
	require.False(t, stop())
	require.Contains(t, report, "seed 17 hangs")
	require.Contains(t, report, "hangsHere")
}

func hangsHere(hang chan struct{}) { <-hang }

func TestWatchdogOfASeedThatEnds(t *testing.T) {
	stop := watchdog(17, time.Hour, func(string) { t.Error("it was stopped") })
	require.True(t, stop())
}
