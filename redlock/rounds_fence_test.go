package redlock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// maxTTL is Config.MaxTTL of stories with fencing numbers.
const maxTTL = 2 * time.Second

// fencing is what the player of a story with fencing numbers has besides: a
// second client, the late one, that reaches the nodes in its own way, and the
// numbers of locks.
type fencing struct {
	lateNetwork *redistest.Network
	late        *Client
	lag         time.Duration
	attempt     chan granting
	old         []map[string]string // the nodes' keys before the late attempt
	grants      []granting
}

// A granting is the result of an attempt.
type granting struct {
	lock Lock
	err  error
	at   time.Time
}

// open opens the deployment, with floors, and connects the late client.
func (p *player) open() {
	_, err := Init(p.t.Context(), p.memory.reach(p.config))
	require.NoError(p.t, err)
	p.lateNetwork = redistest.NewNetwork()
	p.t.Cleanup(func() { p.lateNetwork.Close() })
	for _, node := range p.memory.nodes {
		node.Serve(p.lateNetwork.Listen(node.Addr()))
	}
	config := p.config
	config.Nodes, config.Connect.NetDial = Nodes(p.memory.urls()...), p.lateNetwork.Dial
	config.NodeTimeout = maxTTL
	p.late, err = New(p.t.Context(), config)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { closeNow(p.t, p.late) })
	require.NoError(p.t, p.late.Ready(p.t.Context()))
}

// behind makes the client's numbers too low.
func (p *player) behind(args []string) error {
	err := set(&p.lag, args[0])
	lag(p.client, -p.lag)
	return err
}

// restart restarts a node, empty or as from a file that is a little old.
func (p *player) restart(args []string) error {
	i, _ := strconv.Atoi(args[0])
	p.memory.nodes[i].Restart()
	if args[1] != "" {
		for key, value := range p.old[i] {
			p.memory.nodes[i].DB().Set(key, value, 0)
		}
	}
	synctest.Wait()
	return nil
}

// holds lets another client hold a resource of several on a node.
func (p *player) holds(args []string) error {
	if err := p.node([]string{args[0], args[1], "+OK"}); err != nil {
		return err
	}
	i, _ := strconv.Atoi(args[0])
	p.memory.nodes[i].DB().Set(args[2], stranger, 0)
	return nil
}

// lateNode sets the way of the late client to a node.
func (p *player) lateNode(args []string) error {
	i, _ := strconv.Atoi(args[0])
	link := p.lateNetwork.At(p.memory.nodes[i].Addr())
	if args[1] == "cut off" {
		link.Pause(redistest.Up)
		return nil
	}
	up, down, err := split(args[1])
	link.Latency(up, down)
	return err
}

// lateAcquire begins an attempt of the late client.
func (p *player) lateAcquire([]string) error {
	p.attempt = make(chan granting, 1)
	p.old = nil
	for _, node := range p.memory.nodes {
		keys := map[string]string{}
		for _, key := range node.Keys() {
			keys[key], _ = node.Get(key)
		}
		p.old = append(p.old, keys)
	}
	go func() {
		lock, err := p.late.TryAcquire(context.Background(), resource, p.ttl)
		p.attempt <- granting{lock, err, time.Now()}
	}()
	synctest.Wait()
	return nil
}

// lateOutcome waits for the end of that attempt.
func (p *player) lateOutcome(args []string) error {
	g := <-p.attempt
	switch {
	case g.err == nil && args[0] == "acquired":
		p.grants = append(p.grants, g)
		return nil
	case g.err == nil || outcomeOf(g.err) != args[0]:
		return fmt.Errorf("late: %v", g.err)
	}
	return nil
}

// ordered checks a lock that was granted: its number is higher than those of
// all locks that were granted before its attempt began.
func (p *player) ordered(l Lock, begun time.Time) error {
	if i := slices.IndexFunc(p.grants, func(g granting) bool {
		return !g.at.After(begun) && g.lock.Fence() >= l.Fence() && l.Fence() > 0
	}); i >= 0 {
		return fmt.Errorf("number %d, after %d", l.Fence(), p.grants[i].lock.Fence())
	}
	p.grants = append(p.grants, granting{lock: l, at: time.Now()})
	return nil
}
