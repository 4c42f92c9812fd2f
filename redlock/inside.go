package redlock

import (
	"context"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/inside"
)

// What packages admin and election reach of this one.

func init() {
	inside.Of = func(client any) inside.Client {
		c := client.(*Client)
		c.made()
		return interior{c}
	}
	inside.Open = func(ctx context.Context, config any, replace []string) (any, error) {
		return newClient(ctx, config.(Config), founding{founds: true, replaces: replace})
	}
	inside.During = func(ctx context.Context, hold any) (context.Context, func()) { return hold.(*Hold).during(ctx) }
	inside.Close = func(hold any) { hold.(*Hold).close() }
	inside.CheckResource = checkResource
	inside.Named = named
	inside.Cancelled = cancelledError
	inside.NoQuorum = func(nodes *multiplex.UndecidedError) error { return &noQuorumError{nodes: nodes} }
	inside.Translate = func(err error) error { return translate(err, nil) }
	inside.Joined = joined
}

// An interior is inside.Client, which says what each of its methods does.
type interior struct{ client *Client }

func (i interior) Called(ctx context.Context) { i.client.called(ctx) }

func (i interior) Group() *multiplex.Group { return i.client.group }

func (i interior) Config() any { return *i.client.config }

func (i interior) CheckLock(resource string, ttl time.Duration) error {
	c := i.client
	ttl, err := c.config.checkLock(c.kinds.Plain(), resource, ttl)
	if err == nil && c.config.late(ttl, 0, pure.Drift(ttl, c.config.DriftFactor)) {
		err = c.config.tooShort(ttl)
	}
	return err
}

func (i interior) Sleep(ctx context.Context, d time.Duration) error {
	return i.client.failed(ctx, sleep(ctx, d, i.client.over(ctx)), nil)
}

func (i interior) Patience() func(error) error {
	p := patience{begun: time.Now()}
	return func(err error) error { return i.client.impatient(&p, err) }
}

func (i interior) Under(ctx context.Context, hold any) bool {
	c := i.client
	for in := c.outer(ctx); in != nil; in = c.outer(in.Context) {
		if in.hold == hold {
			return true
		}
	}
	return false
}

func (i interior) Elected() { i.client.stats.electionsLed.Add(1) }

func (i interior) Deposed() { i.client.stats.electionsLost.Add(1) }

func (i interior) ReportLapse(left time.Duration) {
	i.client.warn("redlock: waiting, since the deployment that is replaced has a longer MaxTTL", timeAttr("left", left))
}

// A founding says what Init wants of a client.
type founding struct {
	founds   bool
	replaces []string
}
