package redistest

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNoLeaksSeesGoroutinesAndDescriptors(t *testing.T) {
	warmUp()
	g, d := goroutines(), descriptors()
	require.NoError(t, awaitNoLeaks(g, d, 1))

	started, stop := make(chan struct{}), make(chan struct{})
	go leakedGoroutine(started, stop)
	<-started
	require.ErrorContains(t, awaitNoLeaks(g, d, 3), "leakedGoroutine")
	ends := time.AfterFunc(time.Hour, func() { close(stop) }) // like a timer of the program
	require.ErrorContains(t, awaitNoLeaks(g, d, leaksLooks), "leakedGoroutine")
	require.True(t, ends.Stop())
	time.AfterFunc(20*time.Millisecond, func() { close(stop) })
	require.NoError(t, awaitNoLeaks(g, d, leaksLooks), "it waits for those that are about to end")

	if d == nil {
		t.Skip("skipped: descriptors cannot be listed here")
	}
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	require.ErrorContains(t, awaitNoLeaks(g, d, 3), "→ "+os.DevNull)
	f.Close()
	require.NoError(t, awaitNoLeaks(g, d, 1))
}

func leakedGoroutine(started, stop chan struct{}) {
	close(started)
	<-stop
}
