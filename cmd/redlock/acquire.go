package main

import (
	"cmp"
	"context"

	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/redlock"
)

// acquireCommand takes a lock that outlives this process.
type acquireCommand struct {
	waiting
	lifetime
	fencing
	reporting
	labelling
	TokenFile string `placeholder:"FILE" help:"Write the token to this file, which only its owner may read. Without this flag, write it to standard output."`
	Quiet     bool   `short:"q" help:"Print nothing if another client holds the lock."`

	Resource string `arg:"" help:"What is locked: 1 to 1,024 bytes."`
}

// Help is what --help shows below the first line.
func (*acquireCommand) Help() string {
	return `The lock is not renewed: it ends with its TTL unless it is extended or released before. If the work is a command, use redlock run instead: it renews the lock, and stops the command when the lock is lost.

The token is one word. It is a secret: with it, anyone can release the lock. It also holds the end of the validity, so that redlock extend knows whether the lock is still ours. That works on this machine only, and until its next restart.

With --fenced, the lock has a number that is higher than that of any lock before. It is the field fence of --json, and is printed by itself on standard output if the token goes to a file. Pass it along with each write, and let what is written to refuse lower ones (docs/fencing.md). redlock extend shows it again.

Exit code: 75 held by another client, 69 no quorum. Unless it is 0, nothing is locked.

With --json, the outcome is one of acquired, held, no_quorum, expired, lost, interrupted and failed. The fields token or token_file, validity_ms and until describe the lock; holder and holder_ttl_ms describe the lock of another client.

Examples:

    redlock acquire -n --token-file deploy.token deploy
    redlock acquire -n --max-ttl 10m --ttl 5m --token-file deploy.token deploy
    REDLOCK_TOKEN=$(redlock acquire -w 10s deploy) && export REDLOCK_TOKEN
`
}

// Validate is called by package kong.
func (c *acquireCommand) Validate() error {
	return cmp.Or(c.labelling.Validate(), c.waiting.Validate())
}

// Run is the command.
func (c *acquireCommand) Run(p *process, d *deployment) error {
	o := &outcome{Resource: errtext.Name(c.Resource)}
	return c.report(p, o, c.acquire(p, d, o))
}

// acquire takes the lock and delivers its token. If the token cannot be
// delivered, it releases the lock.
func (c *acquireCommand) acquire(p *process, d *deployment, o *outcome) error {
	if err := checkResource(c.Resource); err != nil {
		return err
	}
	d.nameProcess()
	client, err := d.openFor(p, c.TTL, c.bound(d), c.Fenced)
	if err != nil {
		return c.named(d, err)
	}
	defer shut(client)
	if !c.without() {
		if _, err := d.nested(client, false, c.Resource); err != nil {
			return err
		}
	}
	sink, err := openTokenSink(p, c.TokenFile)
	if err != nil {
		return err
	}
	defer sink.discard()
	lock, contest, err := c.take(p, d, client)
	if err != nil {
		o.holder(contest.found)
		return contest.held(err, exitHeld, c.Quiet)
	}
	if err := c.deliver(p, sink, lock, handoverOf(d, lock, c.TTL, lock.Fence()), o, "acquired"); err != nil {
		_ = release(lock)
		return err
	}
	return nil
}

// take waits for the lock. A signal ends the wait.
func (c *acquireCommand) take(p *process, d *deployment, client *redlock.Client) (lock redlock.Lock, asked *contest, err error) {
	options := redlock.HoldOptions{TTL: c.TTL, NoRenewal: true, Label: c.Label}
	granted := func(ctx context.Context, err error) error {
		if err != nil {
			return err
		}
		return new(form).strangers(ctx, client, c.TTL, c.bound(d), c.Resource)
	}
	asked = &contest{client: client, resource: c.Resource, try: func(ctx context.Context) (err error) {
		lock, err = detached(client.Lock(c.Resource).TryHold(ctx, options))
		return granted(ctx, err)
	}}
	err = c.wait(p, d, asked, func(ctx context.Context) (err error) {
		lock, err = detached(client.Hold(ctx, c.Resource, options))
		return granted(ctx, err)
	})
	if err != nil {
		_ = release(lock) // the grant may have come right before a signal, or others were there
	}
	return lock, asked, err
}

// detached returns the lock of a hold that was granted.
func detached(hold *redlock.Hold, err error) (redlock.Lock, error) {
	if err != nil {
		return redlock.Lock{}, err
	}
	return hold.Detach()
}
