package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/resp"
)

// A Probe asks one node. The caller closes it.
type Probe struct {
	// Credentials is as in conn.Config. If nil, the endpoint's count.
	Credentials func(context.Context) (conn.Credentials, error)

	endpoint conn.Endpoint
	prefix   string
	made     time.Time
	c        *conn.Conn // nil, or broken, when the node must be dialed

	// dial connects, in tests. If nil, the network is used.
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	origin time.Time // the node's time of the first sample; zero before
}

// New returns a Probe of the node at an endpoint. The prefix is that of the
// keys of locks. New does not connect.
func New(endpoint conn.Endpoint, prefix string) *Probe {
	return &Probe{endpoint: endpoint, prefix: prefix, made: time.Now()}
}

// Addr is the node's address without credentials.
func (p *Probe) Addr() string { return p.endpoint.String() }

// Name returns the node's name in a deployment.
func (p *Probe) Name() string { return pure.NameOf(p.endpoint.Home(), p.endpoint.DB) }

// Close ends the connection. The Probe may be used again, and then dials.
func (p *Probe) Close() {
	if p.c != nil {
		p.c.Close()
		p.c = nil
	}
}

// limits bound what a node may send: more than its INFO, and far less than what
// could do harm.
var limits = resp.Limits{Bulk: 1 << 20, Elements: 1 << 14, Size: 2 << 20}

// connect dials unless there is a connection.
func (p *Probe) connect(ctx context.Context) error {
	if p.c != nil && p.c.Err() == nil {
		return nil
	}
	p.Close()
	ctx, found := p.watchForPlaintext(ctx)
	c, err := conn.Dial(ctx, conn.Config{
		Endpoint: p.endpoint, Credentials: p.Credentials, NetDial: p.dial, Limits: limits, Slot: pure.Slot(p.prefix),
	})
	if plain := found(); plain != nil && err != nil {
		return plain
	}
	if err != nil {
		return err
	}
	p.c = c
	return nil
}

// A Question is a command, and a function that takes its reply, errors
// included. An error of Take ends the connection.
type Question struct {
	Command []byte
	Take    func(v resp.Value) error
}

// Ask sends all questions at once, and waits for the answers or until ctx ends.
// An error ends the connection, and the next call dials again.
func (p *Probe) Ask(ctx context.Context, questions ...Question) error {
	if err := p.connect(ctx); err != nil {
		return err
	}
	return exchange(ctx, p.c, questions...)
}

func exchange(ctx context.Context, c *conn.Conn, questions ...Question) error {
	var bytes []byte
	for _, q := range questions {
		bytes = append(bytes, q.Command...)
	}
	return c.Exchange(ctx, bytes, len(questions), func(i int, v resp.Value) error { return questions[i].Take(v) })
}

// ServerError returns an error reply as an error that may be shown, or nil if v
// is not an error.
func (p *Probe) ServerError(v resp.Value) error { return p.c.ServerError(v) }

// Look asks for everything except the clock, and waits for the answers or until
// ctx ends.
func (p *Probe) Look(ctx context.Context) Facts {
	f := Facts{
		Addr: p.endpoint.String(), Name: p.Name(), Local: p.endpoint.Local(), DB: p.endpoint.DB, Failover: p.endpoint.Failover, Secret: p.endpoint.Password != "" || p.Credentials != nil,
		Info: Lines{}, Flushes: -1, Watchers: -1,
	}
	if t := p.endpoint.TLS; t != nil {
		f.TLS, f.Unverified, f.Secret = true, t.InsecureSkipVerify, f.Secret || len(t.Certificates) > 0
	}
	if f.Err = p.connect(ctx); f.Err != nil {
		return f
	}
	f.Server = *p.c.Server()
	f.Err = p.Ask(ctx, append(f.questions(p.prefix), f.trials(p.prefix)...)...)
	return f
}

// mostAddresses bounds how many addresses of a name are dialed.
const mostAddresses = 16

// Others dials the node again, at each address of its name, and returns the run
// ids of servers other than the one with this run id. Behind a name or an
// address there may be several servers in turn.
func (p *Probe) Others(ctx context.Context, run string) (others []string) {
	endpoints := []conn.Endpoint{p.endpoint}
	host, port, err := net.SplitHostPort(p.endpoint.Addr)
	if err == nil && p.endpoint.Network != "unix" {
		ips, _ := net.DefaultResolver.LookupHost(ctx, host)
		for _, ip := range ips[:min(len(ips), mostAddresses)] {
			e := p.endpoint
			e.Addr = net.JoinHostPort(ip, port)
			if e.TLS != nil && e.TLS.ServerName == "" {
				e.TLS = e.TLS.Clone()
				e.TLS.ServerName = host
			}
			endpoints = append(endpoints, e)
		}
	}
	for _, e := range endpoints {
		c, err := conn.Dial(ctx, conn.Config{Endpoint: e, Credentials: p.Credentials, Limits: limits, Slot: pure.Slot(p.prefix)})
		if err != nil {
			continue // it is no vote for another client either
		}
		if is := c.Server().RunID; is != "" && run != "" && is != run && !slices.Contains(others, is) {
			others = append(others, is)
		}
		_ = c.Close()
	}
	return others
}

// errTime is the error of a reply to TIME that is not a time.
var errTime = errors.New("the reply to TIME is not a time")

// Clock takes n samples of the node's clock, one after the other. It returns an
// error if it cannot.
func (p *Probe) Clock(ctx context.Context, n int) ([]Sample, error) {
	if err := p.connect(ctx); err != nil { // so that the first round trip is one
		return nil, err
	}
	var burst []Sample
	for range n {
		s, err := p.sample(ctx)
		if err != nil {
			return burst, err
		}
		burst = append(burst, s)
	}
	return burst, nil
}

var askTime = resp.AppendCommand(nil, "TIME")

func (p *Probe) sample(ctx context.Context) (Sample, error) {
	var now time.Time
	var refused error
	sent := time.Now()
	err := p.Ask(ctx, Question{askTime, func(v resp.Value) error {
		if v.IsError() {
			refused = fmt.Errorf("TIME: %w", p.ServerError(v))
			return nil
		}
		var ok bool
		if now, ok = readTime(v); !ok {
			return errTime
		}
		return nil
	}})
	received := time.Now()
	if err = errors.Join(err, refused); err != nil {
		return Sample{}, err
	}
	if p.origin.IsZero() {
		p.origin = now
	}
	// Round strips the monotonic part: both are times of day.
	middle := sent.Add(received.Sub(sent) / 2).Round(0)
	return Sample{
		Sent: sent.Sub(p.made), Received: received.Sub(p.made), Ahead: now.Sub(middle), Elapsed: now.Sub(p.origin),
	}, nil
}

// lastSecond is in the year 2286. No clock is meant to show more, and
// differences below it do not overflow.
const lastSecond = 10_000_000_000

// readTime reads the two numbers that answer TIME.
func readTime(v resp.Value) (time.Time, bool) {
	if v.Type() != resp.Array || v.Len() != 2 {
		return time.Time{}, false
	}
	var numbers []int64
	for e := range v.Elements() {
		n, err := strconv.ParseInt(string(e.Bytes()), 10, 64)
		if err != nil || n < 0 {
			return time.Time{}, false
		}
		numbers = append(numbers, n)
	}
	if numbers[0] > lastSecond || numbers[1] >= 1_000_000 {
		return time.Time{}, false
	}
	return time.Unix(numbers[0], numbers[1]*int64(time.Microsecond)), true
}
