package election_test

import (
	"context"
	"fmt"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/election"
	"github.com/redmux/redmux/redlocktest"
)

// A leader works until its context ends, here because it steps down. An
// observer sees who leads.
func ExampleElection() {
	d, err := redlocktest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config := d.Config()
	config.Fenced, config.Owner = true, "web-1"
	client, err := redlock.New(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	candidate, err := election.New(client, "billing", election.Options{
		TermDone: func(info election.TermInfo) {
			fmt.Println("term over:", info.Cause, info.Released)
			cancel() // this example has seen enough
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = candidate.Run(ctx, func(ctx context.Context, term uint64) error {
		for l := range election.Watch(ctx, client, "billing") {
			fmt.Println(l.State, l.Leader, l.Term == term)
			_ = candidate.StepDown(ctx) // does not wait for this function
		}
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// held web-1 true
	// term over: redlock: the leader steps down <nil>
	// redlock: "billing": context canceled
}
