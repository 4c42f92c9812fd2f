package main

import (
	"context"

	"github.com/redmux/redmux/redlock"
)

// acquireCommand takes a lock that outlives this process.
type acquireCommand struct {
	waiting
	lifetime
	reporting
	TokenFile string `placeholder:"FILE" help:"Write the token to this file, which only its owner may read. Without it the token is written to standard output."`
	Quiet     bool   `short:"q" help:"Say nothing where another client holds the lock."`

	Resource string `arg:"" help:"What is locked: 1 to 1,024 bytes."`
}

// Help is what --help shows below the first line.
func (*acquireCommand) Help() string {
	return `The lock is not renewed: it ends with its TTL unless it is extended or released before. Where a command can be run under it, redlock run is the better choice, which stops the command when the lock is lost.

The token is one word. Who knows it can release the lock. It also holds the end of the validity, so that redlock extend knows whether the lock is still ours; that counts on this machine only, and until it is started anew.

Exit code: 75 held by another client, 69 no quorum. With any but 0 nothing is locked.

With --json the outcome is one of acquired, held, no_quorum, lost, interrupted and failed, and token, or token_file, validity_ms and until tell of the lock, holder and holder_ttl_ms of another client's.

Examples:

    redlock acquire -n --ttl 5m --token-file deploy.token deploy
    REDLOCK_TOKEN=$(redlock acquire -w 10s deploy) && export REDLOCK_TOKEN
`
}

// Run is the command.
func (c *acquireCommand) Run(p *process, d *deployment) error {
	o := &outcome{Resource: c.Resource}
	return c.report(p, o, c.acquire(p, d, o))
}

// acquire takes the lock and hands its token over. A lock whose token cannot be handed over is released.
func (c *acquireCommand) acquire(p *process, d *deployment, o *outcome) error {
	if err := checkResource(c.Resource); err != nil {
		return err
	}
	client, err := d.openFor(p, c.TTL, c.bound(d))
	if err != nil {
		return err
	}
	defer shut(client)
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
	if err := c.deliver(p, sink, lock, handoverOf(lock, c.TTL), o, "acquired"); err != nil {
		_ = release(lock)
		return err
	}
	return nil
}

// take waits for the lock. A signal ends the wait.
func (c *acquireCommand) take(p *process, d *deployment, client *redlock.Client) (lock redlock.Lock, asked *contest, err error) {
	asked = &contest{client: client, resource: c.Resource, try: func(ctx context.Context) (err error) {
		lock, err = client.TryAcquire(ctx, c.Resource, c.TTL)
		return err
	}}
	err = c.wait(p, d, asked, func(ctx context.Context) (err error) {
		lock, err = client.Acquire(ctx, c.Resource, c.TTL)
		return err
	})
	if err != nil {
		_ = release(lock) // the grant may have come right before a signal
	}
	return lock, asked, err
}
