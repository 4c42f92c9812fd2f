package multiplex

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Releases that gather while the flusher writes are written by that flusher: it
// gives up its role only when nothing is left. Otherwise they would wait for
// the next flush, which on an idle client is the probe after 5 s.
func TestWhatGathersDuringAFlushIsWritten(t *testing.T) {
	const callers = 4
	inMergingBubble(t, 3, func(t *testing.T, c *cluster) {
		var receipts [callers]Receipt
		for i := range receipts {
			receipts[i] = c.mustClaim(fmt.Sprint("k", i))
		}
		time.Sleep(trip)
		for round := range 1000 {
			spent := took(func() {
				var wg sync.WaitGroup
				for i, receipt := range receipts {
					wg.Go(func() {
						// A refusal after the first round; only its time
						// matters.
						_ = c.release(background, fmt.Sprint("k", i), "t", long, receipt)
					})
				}
				wg.Wait()
			})
			require.Equal(t, trip, spent, "round %d", round)
		}
	}, withConfig(func(config *Config) { config.VoteTimeout = time.Minute }))
}
