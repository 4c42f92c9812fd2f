package redlock

import (
	"context"
	"time"
)

// Sleeps makes the process of a client seem to have slept for as long as slept
// returns, which is told whether the client keeps a hold.
func Sleeps(c *Client, slept func(kept bool) time.Duration) {
	k := c.keeper
	k.clock = func() instant {
		now, kept := readClocks(), false
		if k.mu.TryLock() {
			kept = k.schedule.Len() > 0
			k.mu.Unlock()
		}
		now.slept += slept(kept)
		return now
	}
}

// What package admin does, for tests of this package, which cannot import it.
// inside_test.go sets it. The types are those of admin, as far as tests need
// them.
var (
	Init       func(ctx context.Context, config Config, replace ...string) (Deployment, error)
	ResetFence func(ctx context.Context, config Config, least uint64) (FenceReset, error)
	Inspect    func(ctx context.Context, c *Client, resource string) (Inspection, error)
)

// Run and StepDown are those of an election that is made for the call, with a
// client that can have one, and Leader is election.Leader.
var (
	Run      func(ctx context.Context, c *Client, name string, ttl time.Duration, lead func(context.Context) error) error
	StepDown func(ctx context.Context, c *Client, name string, ttl time.Duration) error
	Leader   func(ctx context.Context, c *Client, name string) error
)

type (
	Deployment struct {
		ID     string
		Nodes  int
		MaxTTL time.Duration
		New    bool
	}
	FenceReset struct {
		Floor uint64
		Nodes []FenceNode
	}
	FenceNode struct {
		Addr            string
		Highest         uint64
		Floored, Beyond bool
	}
	Inspection struct {
		State, Holder, Owner string
		Fence                uint64
		Nodes                []InspectedNode
		All                  any // the admin.Inspection
	}
	InspectedNode struct {
		Holder, Owner string
		Err           error
	}
)

const (
	StateFree = "free"
	StateHeld = "held"
)
