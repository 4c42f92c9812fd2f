package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// probes returns a probe for each node, with the credentials that a client
// would use. The caller closes them.
func (d *deployment) probes(p *process) ([]*probe.Probe, error) {
	config, err := d.config(p)
	if err != nil {
		return nil, err
	}
	var all []*probe.Probe
	for i, node := range config.Nodes {
		e, err := conn.ParseURL(node.URL)
		if err != nil {
			return nil, usagef("--nodes: number %d: %w", i+1, err) // the error shows no password (R27)
		}
		e = e.Or(conn.Endpoint{
			Username: config.Username, Password: config.Password,
			ClientName: config.Connect.ClientName, DialTimeout: config.Connect.Timeout,
		})
		next := probe.New(e, config.Prefix)
		next.Credentials = d.source
		all = append(all, next)
	}
	return all, nil
}

// forEach asks all nodes at once, each in a goroutine of its own, and returns
// when all are done. Each has --timeout: a node that hangs delays the answer
// but does not prevent it.
func (d *deployment) forEach(ctx context.Context, probes []*probe.Probe, ask func(context.Context, int, *probe.Probe)) {
	d.forEachSoon(ctx, probes, d.Timeout, ask)
}

// forEachSoon is forEach, but once a quorum is done it waits for the others only
// for grace.
func (d *deployment) forEachSoon(ctx context.Context, probes []*probe.Probe, grace time.Duration, ask func(context.Context, int, *probe.Probe)) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	done := make(chan struct{}, len(probes))
	for i, node := range probes {
		go func() {
			ask(ctx, i, node)
			done <- struct{}{}
		}()
	}
	for i := range probes {
		if i == multiplex.Quorum(len(probes)) {
			enough := time.AfterFunc(max(pure.Soon, grace), cancel)
			defer enough.Stop()
		}
		<-done
	}
}

// tellIfSlow says on standard error that the command waits for masters, unless
// done is called within a moment. A second call of done does nothing.
func (p *process) tellIfSlow() (done func()) {
	said := make(chan struct{})
	slow := time.AfterFunc(hungGrace/2, func() {
		p.say("waiting for masters that do not answer")
		close(said)
	})
	return sync.OnceFunc(func() {
		if !slow.Stop() {
			<-said // so that nothing is said later
		}
	})
}

func closeAll(probes []*probe.Probe) {
	for _, node := range probes {
		node.Close()
	}
}

// settle waits until each node of a client is up or has failed once, at most
// for --timeout: before that, nodes would be shown as down that were not tried
// yet. Once a quorum is up, it waits for the others only for grace. It does not
// wait for a node that lost reports; lost may be nil.
func (d *deployment) settle(ctx context.Context, client *redlock.Client, grace time.Duration, lost func(i int) bool) {
	ctx, cancel := context.WithDeadline(ctx, d.opened.Add(d.Timeout))
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	var enough <-chan time.Time // nil until a quorum is up
	for {
		nodes := client.Nodes()
		for i := range nodes {
			if nodes[i].State != "up" && lost != nil && lost(i) {
				nodes[i].Err = errNotUp
			}
		}
		done, quorum := settled(nodes)
		switch {
		case done:
			return
		case quorum && enough == nil:
			enough = time.After(grace)
		}
		select {
		case <-ctx.Done():
			return
		case <-enough:
			return
		case <-look.C:
		}
	}
}

// settled reports whether no node is in its first attempt to connect, and
// whether a quorum is up.
func settled(nodes []redlock.NodeStatus) (done, quorum bool) {
	up, connecting := 0, 0
	for _, n := range nodes {
		switch {
		case n.State == "up":
			up++
		case n.Err == nil || errors.Is(n.Err, multiplex.ErrConnecting):
			connecting++
		}
	}
	return connecting == 0, up > len(nodes)/2
}
