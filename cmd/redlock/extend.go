package main

import (
	"context"
	"errors"

	"github.com/redmux/redmux/internal/errtext"
)

// extendCommand lengthens a lock.
type extendCommand struct {
	tokenSource
	lifetime
	reporting

	Resource string `arg:"" help:"What is locked."`
}

// Help is what --help shows below the first line.
func (*extendCommand) Help() string {
	return `The lock then lasts for the TTL from now on, or as long as before if that is longer. It is extended only while it is certainly ours: its validity, whose end is in the token, is not over, and a quorum of masters confirms it. A token from another machine, or from before a restart of this one, is of no use here; such a lock can only be released.

The new token replaces the one in the file. If the old one came from standard input or REDLOCK_TOKEN, the new one is written to standard output. They differ only in the end of the validity: both release the lock.

Exit code: 70 the lock is no longer ours; 69 no quorum, and the lock lasts as long as before. With --json, the outcome is one of extended, not_held, expired, lost (a token from elsewhere), no_quorum, interrupted and failed. The fields token or token_file, validity_ms and until describe the lock.

Examples:

    redlock extend --token-file deploy.token deploy
    REDLOCK_TOKEN=$(redlock extend --max-ttl 10m --ttl 5m deploy)
`
}

// Run is the command.
func (c *extendCommand) Run(p *process, d *deployment) error {
	o := &outcome{Resource: errtext.Name(c.Resource)}
	return c.report(p, o, c.extend(p, d, o))
}

func (c *extendCommand) extend(p *process, d *deployment, o *outcome) error {
	old, err := c.read(p)
	if err != nil {
		return err
	}
	d.Owner = old.Owner // whatever the flag says: it is part of the lock
	client, err := d.openFor(p, c.TTL, d.Timeout, false)
	if err != nil {
		return err
	}
	defer shut(client)
	sink, err := openTokenSink(p, c.TokenFile)
	if err != nil {
		return err
	}
	defer sink.discard()
	lock, err := old.adopt(client, c.Resource)
	if err != nil {
		return err
	}
	if !old.here() {
		return &exitError{exitLost, errors.New("the token was written on another machine, or before a restart: whether the lock is still ours cannot be known")}
	}
	ctx, stop := p.interruptible(context.Background())
	defer stop()
	if err := d.ready(ctx, client); err != nil {
		return err
	}
	longer, err := lock.Extend(ctx, c.TTL)
	if err != nil {
		return err
	}
	return c.deliver(p, sink, longer, handoverOf(d, longer, max(old.ttl, c.TTL), old.fence), o, "extended")
}
