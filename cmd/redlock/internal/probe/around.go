package probe

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
)

// Around is what surrounds a node to which a URL leads by seeds. It is zero for
// other nodes.
type Around struct {
	Seeds []Seed // in the order of the URL
	// Announced are the servers that the seeds, or INFO of a primary behind
	// sentinels, name. More reports that there was no room for all.
	Announced []Announced
	More      bool
}

// An Announced is a server at the address by which others know it.
type Announced struct {
	Addr string
	By   string // who named it first
	// Said are the ids that it is said to have: run ids, or those of servers of
	// a cluster. Down reports that a sentinel does not reach it.
	Said []string
	Down bool
	// Err is why it could not be asked. Otherwise ID is its own word, "" if it
	// may not be asked.
	Err error
	ID  string
}

const (
	// mostAnnounced bounds how many announced addresses are dialed, and
	// dialedAtOnce how many of them at a time.
	mostAnnounced, dialedAtOnce = 64, 16
	// aroundParts divides the time: into a part for the seeds, and one for each
	// turn of addresses.
	aroundParts = mostAnnounced/dialedAtOnce + 1
)

// LookAround asks the seeds that lead to the node, and then each server that
// they name, whether its address leads to it. It waits for the answers or until
// ctx ends. As in a client, the servers get the credentials of the URL.
func (p *Probe) LookAround(ctx context.Context, f *Facts) (a Around) {
	seeds := p.endpoint.Seeds
	if seeds == nil {
		return a
	}
	a.Seeds = make([]Seed, len(seeds.Addrs))
	named := make([][]Announced, len(seeds.Addrs))
	var asking sync.WaitGroup
	for i, addr := range seeds.Addrs {
		asking.Go(func() { a.Seeds[i], named[i] = p.askSeed(ctx, addr) })
	}
	asking.Wait()
	if !p.endpoint.InCluster() { // where INFO has other addresses than clients are told
		for _, addr := range f.replicas {
			host, port, _ := net.SplitHostPort(addr)
			named = append(named, []Announced{announced("INFO of the primary", host, port, "")})
		}
	}
	for _, all := range named {
		for _, one := range all {
			a.add(one)
		}
	}
	p.meetAll(ctx, a.Announced)
	return a
}

// announced returns a server that was named. One that no URL could name has an
// Err.
func announced(by, host, port, id string) Announced {
	a := Announced{Addr: net.JoinHostPort(host, port), By: by}
	if e, err := conn.ParseURL("redis://" + a.Addr); err != nil || e.Addr != a.Addr {
		a.Addr, a.Err = printable(a.Addr), errAddress
	}
	if id != "" {
		a.Said = []string{printable(id)}
	}
	return a
}

var errAddress = errors.New("no client can dial such an address")

// add takes in a server that was named, perhaps again.
func (a *Around) add(one Announced) {
	i := slices.IndexFunc(a.Announced, func(other Announced) bool { return strings.EqualFold(other.Addr, one.Addr) })
	switch {
	case i >= 0:
		known := &a.Announced[i]
		known.Down = known.Down || one.Down
		for _, id := range one.Said {
			if !slices.Contains(known.Said, id) {
				known.Said = append(known.Said, id)
			}
		}
	case len(a.Announced) < mostAnnounced:
		a.Announced = append(a.Announced, one)
	default:
		a.More = true
	}
}

// meetAll dials all servers, some of them at a time.
func (p *Probe) meetAll(ctx context.Context, all []Announced) {
	room := make(chan struct{}, dialedAtOnce)
	var meeting sync.WaitGroup
	for i := range all {
		if all[i].Err == nil {
			room <- struct{}{}
			meeting.Go(func() {
				all[i].ID, all[i].Err = p.meet(ctx, all[i].Addr)
				<-room
			})
		}
	}
	meeting.Wait()
}

// meet asks the server at an address who it is.
func (p *Probe) meet(ctx context.Context, addr string) (id string, err error) {
	e := p.endpoint
	e.Addr, e.Seeds, e.Failover = addr, nil, conn.Failover{}
	c, err := p.dialBeside(ctx, e, p.Credentials)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if p.endpoint.InCluster() {
		return id, exchange(ctx, c, askMyID(&id))
	}
	return c.Server().RunID, nil
}

// dialBeside dials an endpoint other than the node's.
func (p *Probe) dialBeside(ctx context.Context, e conn.Endpoint, credentials func(context.Context) (conn.Credentials, error)) (*conn.Conn, error) {
	e.DialTimeout = max(pure.Soon, p.within()/aroundParts)
	return conn.Dial(ctx, conn.Config{Endpoint: e, Credentials: credentials, NetDial: p.dial, Limits: limits})
}

// within is how long a dial may take.
func (p *Probe) within() time.Duration {
	return cmp.Or(p.endpoint.DialTimeout, conn.DefaultDialTimeout)
}
