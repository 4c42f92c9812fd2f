package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/report"
	"github.com/redmux/redmux/internal/redistest"
)

// masters are servers of a run, shared by all cases that fit: a master belongs
// to one deployment.
type masters []*redistest.Server

// A place is what cases must have in common to share masters.
type place struct {
	nodes int
	tls   bool
}

func placeOf(c report.Case) place { return place{c.Nodes, c.Network == "tls"} }

// startAll starts masters for all places of a plan.
func startAll(blocks []block) (map[place]masters, error) {
	all := make(map[place]masters)
	for _, b := range blocks {
		p := placeOf(b.cases[0])
		if all[p] != nil {
			continue
		}
		servers, err := startMasters(p)
		if err != nil {
			closeAll(all)
			return nil, err
		}
		all[p] = servers
	}
	return all, nil
}

func closeAll(all map[place]masters) {
	for _, m := range all {
		m.close()
	}
}

// startMasters lets every server listen on both TCP and a unix socket, so that
// these are compared on the same processes. A server with TLS has no plain port.
func startMasters(p place) (masters, error) {
	servers, err := redistest.StartN(p.nodes, redistest.Options{TCP: !p.tls, Unix: !p.tls, TLS: p.tls})
	if err != nil {
		return nil, fmt.Errorf("the servers: %w", err)
	}
	return servers, nil
}

func (m masters) close() { redistest.CloseAll(m) }

func (m masters) urls(network string) (all []string) {
	for _, s := range m {
		switch network {
		case "unix":
			all = append(all, s.UnixURL())
		case "tls":
			all = append(all, s.URL()+"?tls_ca_file="+url.QueryEscape(s.CAFile()))
		default:
			all = append(all, s.URL())
		}
	}
	return all
}

func (m masters) pids() (all []int) {
	for _, s := range m {
		all = append(all, s.PID())
	}
	return all
}

// settleTime bounds how long rest waits. Commands that piled up before a
// stopped server take a moment.
const settleTime = 5 * time.Second

// rest waits until no connection of the last child is left on any server: until
// then a server may still execute what that child sent, at the cost of the
// next.
func (m masters) rest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	// A dead client's connection goes when the server has read all that it sent
	// and then its end, so a connection that is gone is also work that is done.
	for _, s := range m {
		for {
			text, err := s.Do("INFO", "clients")
			if err != nil {
				return fmt.Errorf("a server does not answer: %w", err)
			}
			if info, _ := text.(string); strings.Contains(info, "connected_clients:1\r\n") {
				break // it is ours that asks
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("connections of a window that is over stay: %w", ctx.Err())
			case <-time.After(2 * time.Millisecond):
			}
		}
	}
	return nil
}

// version returns the product and version of the servers.
func (m masters) version() string {
	text, err := m[0].Do("INFO", "server")
	info, _ := text.(string)
	if err != nil || info == "" {
		return "not known here"
	}
	for _, product := range []string{"valkey", "redis"} {
		if _, rest, found := strings.Cut(info, product+"_version:"); found {
			version, _, _ := strings.Cut(rest, "\r\n")
			return product + " " + version
		}
	}
	return "not known here"
}
