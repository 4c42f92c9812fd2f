package faults

import (
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

// clockKinds are what the promise allows a node's clock to do: to run at
// another rate, within the drift factor, and to step back, which makes keys
// live longer. A step forward is outside of it where a lock was granted by
// exactly a quorum, and there always are some in a run; redlock's own tests
// show what comes of it (redlock/faults_clients_test.go).
func clockKinds() []*Kind {
	kinds := []*Kind{
		{Name: "clock-rate", About: "the node's clock runs up to 0.9 % fast or slow from now on",
			weight: 2, inject: clockRate},
		{Name: "clock-back", About: "the node's clock steps back by up to 0.3 s", weight: 2, inject: clockBack},
	}
	for _, k := range kinds {
		k.Scope = OfNode
	}
	return kinds
}

// clocksAvailable says why nodes cannot have clocks of their own here; nil if
// they can.
func clocksAvailable() error { return redistest.ClocksAvailable() }

const (
	// mostRate is by how much a clock is wrong at most. The drift factor is a
	// hundredth, for both clocks together, and the processes' are right.
	mostRate = 0.009
	mostBack = 300 * time.Millisecond
)

func clockRate(t *target) (func() error, error) {
	part := 1.0 // mostly as fast as may be: keys that end early are what the drift is for, and it takes a quorum of them
	if t.random.IntN(3) == 0 {
		part = 2*t.random.Float64() - 1
	}
	t.server.Clock().SetRate(1 + mostRate*part)
	return nil, nil
}

func clockBack(t *target) (func() error, error) {
	t.server.Clock().Jump(-time.Duration(t.random.Int64N(int64(mostBack))))
	return nil, nil
}
