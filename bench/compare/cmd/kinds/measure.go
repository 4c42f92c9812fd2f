package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

// A result is what came of the callers of one class in one measurement.
type result struct {
	Grants            float64 // per second
	P50, P99, Longest time.Duration
	Commands          float64 // on all masters, by the grants of all classes
}

// measure lets the clients of one contestant compete for a while.
func (f *flags) measure(ctx context.Context, servers []*redistest.Server, who contestant, resource string) (map[string]result, error) {
	clients := make([]*client, 0, f.Clients)
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	for range f.Clients {
		c, err := who.open(redistest.URLs(servers))
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	before, err := commands(servers)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, f.For)
	defer cancel()
	waits, errs := make([][]time.Duration, len(clients)), make([]error, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { waits[i], errs[i] = c.compete(within, f, resource, i) })
	}
	wg.Wait()
	after, err := commands(servers)
	if err := errors.Join(append(errs, err, ctx.Err())...); err != nil {
		return nil, err
	}
	return f.sumUp(clients, waits, float64(after-before)), nil
}

// compete takes locks until ctx ends, and returns how long each was waited for.
// A wait that ctx ended counts too: it lasted at least as long.
func (c *client) compete(ctx context.Context, f *flags, resource string, place int) (waits []time.Duration, err error) {
	for ctx.Err() == nil {
		begun := time.Now()
		release, err := c.acquire(ctx, resource, f.TTL, place)
		waits = append(waits, time.Since(begun))
		switch {
		case ctx.Err() != nil && err != nil:
			return waits, nil
		case err != nil:
			return nil, err
		}
		time.Sleep(f.Hold)
		_ = release() // on its way, even if no quorum answered in time
	}
	return waits, nil
}

// sumUp returns the figures of each class.
func (f *flags) sumUp(clients []*client, waits [][]time.Duration, commands float64) map[string]result {
	classes, total := make(map[string][]time.Duration), 0
	for i, c := range clients {
		classes[c.class(i)] = append(classes[c.class(i)], waits[i]...)
		total += len(waits[i])
	}
	results := make(map[string]result)
	for class, all := range classes {
		slices.Sort(all)
		n := len(all)
		results[class] = result{
			Grants: float64(n) / f.For.Seconds(), P50: all[n/2], P99: all[n*99/100], Longest: all[n-1],
			Commands: commands / float64(total),
		}
	}
	return results
}

// commands returns how many commands the servers have executed, with those that
// scripts call.
func commands(servers []*redistest.Server) (sum int, err error) {
	for _, s := range servers {
		reply, err := s.Do("INFO", "stats")
		if err != nil {
			return 0, err
		}
		text := fmt.Sprint(reply)
		found := total.FindStringSubmatch(text)
		if found == nil {
			return 0, errors.New("a server does not count its commands")
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

var total = regexp.MustCompile(`total_commands_processed:(\d+)`)
