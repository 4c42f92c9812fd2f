package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/waiter"
	"github.com/redmux/redmux/redlock"
)

// A contest is one kind of lock, and what is measured for it.
type contest struct {
	kind        string
	contestants []contestant
}

// A contestant opens what one client does.
type contestant struct {
	name string
	open func(urls []string) (*client, error)
}

// A client takes locks of one resource. It is used by one goroutine.
type client struct {
	acquire func(ctx context.Context, resource string, ttl time.Duration, place int) (release func() error, err error)
	class   func(place int) string
	close   func()
}

// permits is the number of permits of the semaphores.
const permits = 4

// cases are what is measured. The first contestant of each has the kind.
var cases = []contest{
	{"fair", []contestant{
		{"`Client.Fair`", ours(redlock.Config{}, func(c *redlock.Client, name string, _ int) taker { return c.Fair(name) }, alike)},
		{"`Client.Acquire`", ours(redlock.Config{}, plain, alike)},
		{"`Client.Acquire`, `Config.Poll`", ours(redlock.Config{MaxTries: 1_000_000, RetryDelayMin: time.Millisecond}, plain, alike)},
		{"redsync", redsync(plainName, alike)},
	}},
	{"read/write, one client writes", []contestant{
		{"`Client.RW`", ours(redlock.Config{}, readOrWrite, readersAndWriter)},
		{"`Client.Acquire`", ours(redlock.Config{}, plain, readersAndWriter)},
		{"redsync", redsync(plainName, readersAndWriter)},
	}},
	{fmt.Sprintf("semaphore of %d", permits), []contestant{
		{"`Client.Semaphore`", ours(redlock.Config{}, func(c *redlock.Client, name string, _ int) taker { return c.Semaphore(name, permits) }, alike)},
		{"`Client.Acquire` of one of four names", ours(redlock.Config{}, func(c *redlock.Client, name string, _ int) taker {
			return plainLock{c, anyName(name)}
		}, alike)},
		{"redsync, one of four names", redsync(anyName, alike)},
	}},
}

// A taker is a redlock.Locker, or a plain lock.
type taker interface {
	Acquire(ctx context.Context, ttl time.Duration) (redlock.Lock, error)
}

type plainLock struct {
	client *redlock.Client
	name   string
}

func (p plainLock) Acquire(ctx context.Context, ttl time.Duration) (redlock.Lock, error) {
	return p.client.Acquire(ctx, p.name, ttl)
}

func plain(c *redlock.Client, name string, _ int) taker { return plainLock{c, name} }

func plainName(name string) string { return name }

// anyName is what callers do who have no semaphore: they wait for one of several
// locks, which may be held while another one is free.
func anyName(name string) string { return fmt.Sprint(name, "-", rand.N(permits)) }

func readOrWrite(c *redlock.Client, name string, place int) taker {
	if place == 0 {
		return c.RW(name).Write()
	}
	return c.RW(name).Read()
}

func readersAndWriter(place int) string {
	if place == 0 {
		return "the writer"
	}
	return "readers"
}

func alike(int) string { return "all" }

// ours opens a client of this module. Handing over within a client is off, so
// that all callers are those of different processes.
func ours(
	config redlock.Config, of func(*redlock.Client, string, int) taker, class func(int) string,
) func([]string) (*client, error) {
	return func(urls []string) (*client, error) {
		config := config
		config.Nodes, config.HandOver = redlock.Nodes(urls...), -1
		c, err := redlock.New(context.Background(), config)
		if err != nil {
			return nil, err
		}
		return &client{
			acquire: func(ctx context.Context, resource string, ttl time.Duration, place int) (func() error, error) {
				lock, err := of(c, resource, place).Acquire(ctx, ttl)
				return func() error { return lock.Release(context.Background()) }, err
			},
			class: class,
			close: func() { _ = c.Close(context.Background()) },
		}, nil
	}
}

func redsync(name func(string) string, class func(int) string) func([]string) (*client, error) {
	return func(urls []string) (*client, error) {
		w, err := waiter.Open("redsync", urls)
		return &client{
			acquire: func(ctx context.Context, resource string, ttl time.Duration, _ int) (func() error, error) {
				return w.Acquire(ctx, name(resource), ttl)
			},
			class: class,
			close: w.Close,
		}, err
	}
}
