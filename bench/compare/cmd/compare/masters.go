package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

// masters are servers of a run, reachable over TCP and over unix sockets,
// shared by all cases with so many: a master belongs to one deployment.
type masters []*redistest.Server

// startAll starts masters for each of these numbers.
func startAll(numbers []int) (map[int]masters, error) {
	all := make(map[int]masters)
	for _, n := range numbers {
		if all[n] != nil {
			continue
		}
		servers, err := startMasters(n)
		if err != nil {
			closeAll(all)
			return nil, err
		}
		all[n] = servers
	}
	return all, nil
}

func closeAll(all map[int]masters) {
	for _, m := range all {
		m.close()
	}
}

// startMasters lets every server listen on both networks, so that TCP and unix
// sockets are compared on the same processes.
func startMasters(n int) (masters, error) {
	servers, err := redistest.StartN(n, redistest.Options{TCP: true, Unix: true})
	if err != nil {
		return nil, fmt.Errorf("the servers: %w", err)
	}
	return servers, nil
}

func (m masters) close() {
	for _, s := range m {
		_ = s.Close()
	}
}

func (m masters) urls(network string) (all []string) {
	for _, s := range m {
		if network == "unix" {
			all = append(all, s.UnixURL())
		} else {
			all = append(all, "redis://"+s.TCPAddr())
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
