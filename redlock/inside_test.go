package redlock_test

import (
	"context"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/redlock/election"
)

func init() {
	redlock.Init = func(ctx context.Context, config redlock.Config, replace ...string) (redlock.Deployment, error) {
		d, err := admin.Init(ctx, config, replace...)
		return redlock.Deployment(d), err
	}
	redlock.ResetFence = func(ctx context.Context, config redlock.Config, least uint64) (all redlock.FenceReset, err error) {
		done, err := admin.ResetFence(ctx, config, least)
		all.Floor = done.Floor
		for _, n := range done.Nodes {
			all.Nodes = append(all.Nodes, redlock.FenceNode(n))
		}
		return all, err
	}
	redlock.Inspect = func(ctx context.Context, c *redlock.Client, resource string) (redlock.Inspection, error) {
		found, err := admin.Inspect(ctx, c, resource)
		all := redlock.Inspection{State: string(found.State), Holder: found.Holder, Owner: found.Owner, Fence: found.Fence, All: found}
		for _, n := range found.Nodes {
			all.Nodes = append(all.Nodes, redlock.InspectedNode{Holder: n.Holder, Owner: n.Owner, Err: n.Err})
		}
		return all, err
	}
	redlock.Run = func(ctx context.Context, c *redlock.Client, name string, ttl time.Duration, lead func(context.Context) error) error {
		e, err := election.New(c, name, election.Options{TTL: ttl})
		if err != nil {
			return err
		}
		return e.Run(ctx, func(ctx context.Context, _ uint64) error { return lead(ctx) })
	}
	redlock.StepDown = func(ctx context.Context, c *redlock.Client, name string, ttl time.Duration) error {
		e, err := election.New(c, name, election.Options{TTL: ttl})
		if err != nil {
			return err
		}
		return e.StepDown(ctx)
	}
	redlock.Leader = func(ctx context.Context, c *redlock.Client, name string) error {
		_, err := election.Leader(ctx, c, name)
		return err
	}
}
