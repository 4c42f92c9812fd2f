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
	require.NoError(t, awaitNoLeaks(g, d, 0))

	stop := make(chan struct{})
	done := make(chan struct{})
	go leakedGoroutine(stop, done)
	require.ErrorContains(t, awaitNoLeaks(g, d, 10*time.Millisecond), "leakedGoroutine")
	time.AfterFunc(20*time.Millisecond, func() { close(stop) })
	require.NoError(t, awaitNoLeaks(g, d, 2*time.Second), "it waits for those that are about to end")

	if d == nil {
		t.Skip("skipped: descriptors cannot be listed here")
	}
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	require.ErrorContains(t, awaitNoLeaks(g, d, 10*time.Millisecond), "→ "+os.DevNull)
	f.Close()
	require.NoError(t, awaitNoLeaks(g, d, 0))
}

func leakedGoroutine(stop, done chan struct{}) {
	<-stop
	close(done)
}
