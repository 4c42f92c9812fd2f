package main

import (
	"context"
	"errors"
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
	return `The lock lasts for the TTL from now on, or for as long as it did if that is longer. It is extended only while it is still certain to be ours: by the end of its validity, which is in the token, and by the word of a quorum of masters. A token of another machine, or of before a restart, does not tell; such a lock can be released only.

The new token replaces that in the file; where it came from standard input or REDLOCK_TOKEN, it is written to standard output. It differs from the old one by the end of the validity only: both release the lock.

Exit code: 70 the lock is not ours any more; 69 no quorum: it lasts for as long as it did. With --json the outcome is one of extended, lost, no_quorum, interrupted and failed, and token, or token_file, validity_ms and until tell of the lock.

Examples:

    redlock extend --ttl 5m --token-file deploy.token deploy
    REDLOCK_TOKEN=$(redlock extend --ttl 5m deploy)
`
}

// Run is the command.
func (c *extendCommand) Run(p *process, d *deployment) error {
	o := &outcome{Resource: c.Resource}
	return c.report(p, o, c.extend(p, d, o))
}

func (c *extendCommand) extend(p *process, d *deployment, o *outcome) error {
	old, err := c.read(p)
	if err != nil {
		return err
	}
	client, err := d.openFor(p, c.TTL, d.Timeout)
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
	return c.deliver(p, sink, longer, handoverOf(longer, max(old.ttl, c.TTL)), o, "extended")
}
