package main

import (
	"context"
	"errors"
	"time"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
)

// releaseCommand releases a lock.
type releaseCommand struct {
	tokenSource
	forcing
	reporting

	Resource string `arg:"" help:"What is locked."`
}

// Help is what --help shows below the first line.
func (*releaseCommand) Help() string {
	return `The file with the token, unless it is a link, is removed when the lock is released or no longer ours.

Exit code: 70 the lock was no longer ours, so work may have been done unlocked; 69 no quorum: masters that did not answer keep the lock until its TTL ends, and the file is kept so that you can try again. With --json, the outcome is one of released, not_held, no_quorum, interrupted and failed.

` + forceHelp + `
Examples:

    redlock release --token-file deploy.token deploy
    redlock acquire deploy | redlock release --token-file - deploy
    redlock release --force deploy
`
}

// Validate is called by package kong.
func (c *releaseCommand) Validate() error {
	if c.Force && c.JSON {
		return errors.New("--force asks a person, and has no --json")
	}
	return c.forcing.Validate()
}

// Run is the command.
func (c *releaseCommand) Run(p *process, d *deployment) error {
	if c.Force {
		return forceRelease(p, d, c.Resource, &c.forcing)
	}
	o := &outcome{Resource: errtext.Name(c.Resource)}
	if err := c.release(p, d); err != nil {
		return c.report(p, o, err)
	}
	return c.succeed(p, o, "released")
}

func (c *releaseCommand) release(p *process, d *deployment) error {
	old, err := c.read(p)
	if err != nil {
		return err
	}
	d.Owner = old.Owner // whatever the flag says: it is part of the lock
	client, err := d.openToRelease(p, old.ttl)
	if err != nil {
		return err
	}
	defer shut(client)
	lock, err := old.adopt(client, c.Resource)
	if err != nil {
		return err
	}
	ctx, stop := p.interruptible(context.Background())
	defer stop()
	// Nodes that are up could be told at once, but a node that is just being
	// connected would keep its key.
	_ = d.ready(ctx, client)
	err = releaseWithin(lock, min(releaseTimeout, d.Timeout))
	if err == nil || isOneOf(err, redlock.ErrNotHeld) {
		return errors.Join(err, c.remove())
	}
	return err
}

// A releaser is a lock or a hold.
type releaser interface {
	Release(ctx context.Context) error
}

// releaseTimeout bounds the wait for the answers to a release. --timeout may be
// less.
const releaseTimeout = 2 * time.Second

// release releases a lock, even after a signal.
func release(lock releaser) error { return releaseWithin(lock, releaseTimeout) }

// releaseWithin is release with a shorter bound.
func releaseWithin(lock releaser, most time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	return lock.Release(ctx)
}
