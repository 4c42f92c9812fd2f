package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redmux/redmux/redlock"
)

// fleetKinds are what concerns all servers.
func fleetKinds() []*Kind {
	kinds := []*Kind{
		{Name: powerKind, About: "kill -9 of all servers at once, then empty restarts",
			weight: 1, least: 1 * ms, most: 300 * ms, forgets: true, inject: loseAll},
		{Name: "misconfigured", About: "a client that names all servers but one: it must get no lock (R30)",
			weight: 2, inject: misconfigured},
	}
	for _, k := range kinds {
		k.Scope = OfFleet
	}
	return kinds
}

// powerKind is the one after which the fence must be reset.
const powerKind = "power"

// each does something to all servers at once.
func (t *target) each(do func(one *target) error) error {
	errs := make([]error, len(t.fleet.servers))
	var wg sync.WaitGroup
	for i := range errs {
		one := *t
		one.node, one.server, one.side = i, t.fleet.servers[i], t.fleet.sides[i]
		wg.Go(func() { errs[i] = do(&one) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func loseAll(t *target) (func() error, error) {
	if err := t.each(func(one *target) error { return one.server.Kill() }); err != nil {
		return nil, err
	}
	return func() error { return t.each((*target).restart) }, nil
}

// sealed reports whether every server has a seal: otherwise another set than
// the right one could be opened.
func (t *target) sealed() bool {
	return nil == t.each(func(one *target) error {
		seal, err := one.side.Do("GET", prefix+"redlock:seal")
		if err == nil && seal == nil {
			err = errUnsealed
		}
		return err
	})
}

var errUnsealed = errors.New("a server has no seal")

// misconfigured starts a client for some of the servers. It is refused as soon
// as it has seen the seal of one of them.
func misconfigured(t *target) (func() error, error) {
	urls := t.fleet.unixURLs()
	if len(urls) == 1 {
		return nil, nil
	}
	for wait := time.Now().Add(mostPatience); !t.sealed(); time.Sleep(10 * ms) {
		if time.Now().After(wait) {
			return nil, errUnsealed
		}
	}
	c, err := redlock.New(t.ctx, t.fleet.config(urls[:len(urls)-1], t.processes.run.options.MaxTTL))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
	defer cancel()
	_, err = c.Acquire(ctx, "misconfigured", time.Second)
	switch {
	case err == nil:
		t.processes.run.judge.find("R30: a client that names other servers than the rest got a lock")
		return nil, nil
	case !errors.Is(err, redlock.ErrDeployment) && t.ctx.Err() == nil:
		return nil, fmt.Errorf("it was not refused for its deployment: %w", err)
	}
	return nil, nil
}
