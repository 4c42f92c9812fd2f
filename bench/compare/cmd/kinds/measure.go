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
	all, errs := make([]seen, len(clients)), make([]error, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { all[i], errs[i] = c.compete(within, f, resource, i) })
	}
	wg.Wait()
	after, err := commands(servers)
	if err := errors.Join(append(errs, err, ctx.Err())...); err != nil {
		return nil, err
	}
	return f.sumUp(clients, all, float64(after-before)), nil
}

// seen is what a client has seen.
type seen struct {
	grants int
	waits  []time.Duration // also one that the end cut short: it would have lasted longer
}

// compete takes locks until ctx ends.
func (c *client) compete(ctx context.Context, f *flags, resource string, place int) (s seen, err error) {
	for ctx.Err() == nil {
		begun := time.Now()
		release, err := c.acquire(ctx, resource, f.TTL, place)
		s.waits = append(s.waits, time.Since(begun))
		switch {
		case ctx.Err() != nil && err != nil:
			return s, nil
		case err != nil:
			return s, err
		}
		s.grants++
		time.Sleep(f.Hold)
		_ = release() // on its way, even if no quorum answered in time
	}
	return s, nil
}

// sumUp returns the figures of each class.
func (f *flags) sumUp(clients []*client, all []seen, commands float64) map[string]result {
	classes, total := make(map[string]seen), 0
	for i, c := range clients {
		s := classes[c.class(i)]
		classes[c.class(i)] = seen{s.grants + all[i].grants, append(s.waits, all[i].waits...)}
		total += all[i].grants
	}
	results := make(map[string]result)
	for class, s := range classes {
		slices.Sort(s.waits)
		n := len(s.waits)
		results[class] = result{
			Grants: float64(s.grants) / f.For.Seconds(), P50: s.waits[n/2], P99: s.waits[n*99/100], Longest: s.waits[n-1],
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
