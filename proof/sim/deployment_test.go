package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// quiet keeps warnings about what is done on purpose to itself.
var quiet = slog.New(slog.DiscardHandler)

// sideConfig returns the configuration of a client that is not one of the
// world's processes, for some of the masters.
func (w *world) sideConfig(name string, masters []*master) redlock.Config {
	var urls []string
	for _, m := range masters {
		m.node.Serve(w.network.Listen(m.addrFor(name)))
		urls = append(urls, m.url())
	}
	c := redlock.Config{
		Nodes: redlock.Nodes(urls...), Connect: redlock.Connect{NetDial: w.dialAs(name, 0), ClientName: name, Timeout: dialTimeout}, Logger: quiet,
		Prefix: w.draw.prefix, DriftFactor: w.draw.driftFactor, MaxTTL: w.draw.maxTTL,
	}
	for i, m := range masters {
		c.Nodes[i].Durable = w.draw.durable[m.index]
	}
	return c
}

// found opens the deployment as an operator does.
func (w *world) found() {
	d, err := admin.Init(context.Background(), w.sideConfig("init", w.masters))
	if err != nil || !d.New || d.Nodes != w.draw.nodes {
		panic(fmt.Sprintf("Init: %+v, %v", d, err)) // nothing is wrong yet
	}
}

// misfits starts clients that name only some of the masters, now and then, once
// the deployment is open. They must get no lock (R30).
func (w *world) misfits() {
	random := w.draw.random(200)
	for i := 0; w.sleep(100*ms + span(random, time.Second)); {
		w.mu.Lock()
		open := w.report.Counts["grants"] > 0
		w.mu.Unlock()
		if open {
			i++
			w.misfit(fmt.Sprintf("m%d", i), w.masters[:w.draw.nodes-1-random.IntN(w.draw.nodes-1)])
		}
	}
}

func (w *world) misfit(name string, masters []*master) {
	c, err := redlock.New(context.Background(), w.sideConfig(name, masters))
	if err != nil {
		panic(err) // the simulation itself is wrong
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*ms)
	defer cancel()
	_, err = c.Acquire(ctx, "r0", w.draw.longest)
	switch {
	case err == nil:
		w.violate("R30", "%s names %d of %d masters, and got a lock", name, len(masters), w.draw.nodes)
	case errors.Is(err, redlock.ErrDeployment):
		w.count("misconfigured clients refused", 1)
	default:
		w.count("misconfigured clients without an answer", 1)
	}
	_ = c.Close(context.Background())
}
