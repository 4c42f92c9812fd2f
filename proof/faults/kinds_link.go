package faults

import (
	"fmt"
	"math"
	"time"

	"github.com/redmux/redmux/internal/redistest"
)

// linkKinds are what a network can do between one process and one node. They
// are made by a proxy.
func linkKinds() []*Kind {
	kinds := []*Kind{
		{Name: "delay", About: "bytes travel 2–40 ms each way", weight: 4, least: 20 * ms, most: 200 * ms, inject: delay},
		{Name: "drip", About: "bytes arrive one at a time", weight: 2, least: 20 * ms, most: 100 * ms, inject: drip},
		{Name: "chunk", About: "each reply is read a byte at a time",
			weight: 2, least: 20 * ms, most: 100 * ms, inject: chunk},
		{Name: "hold-up", About: "nothing reaches the node",
			weight: 3, least: 10 * ms, most: 200 * ms, leaves: true, inject: hold(redistest.Up)},
		{Name: "hold-down", About: "nothing comes back",
			weight: 3, least: 10 * ms, most: 200 * ms, leaves: true, inject: hold(redistest.Down)},
		{Name: "late", About: "bytes arrive after the connection's successor did (R8)",
			weight: 1, least: 300 * ms, most: 800 * ms, leaves: true, inject: late},
		{Name: "cut-up", About: "cut after n bytes of commands",
			weight: 2, least: 10 * ms, most: 100 * ms, leaves: true, inject: cut(redistest.Up)},
		{Name: "cut-down", About: "cut after n bytes of replies",
			weight: 2, least: 10 * ms, most: 100 * ms, leaves: true, inject: cut(redistest.Down)},
		{Name: "half-open", About: "the node's end vanishes, ours is not told", weight: 1, leaves: true, inject: halfOpen},
		{Name: "reset", About: "RST to both ends", weight: 2, leaves: true, inject: reset},
		{Name: "refuse", About: "RST, and connections are refused",
			weight: 1, least: 10 * ms, most: 300 * ms, leaves: true, inject: refuse},
	}
	for _, k := range kinds {
		k.Scope = OfLink
	}
	return kinds
}

func delay(t *target) (func() error, error) {
	d := 2*ms + time.Duration(t.random.Int64N(int64(38*ms)))
	t.proxy.Latency(d, d)
	return surely(func() { t.proxy.Latency(0, 0) }), nil
}

func drip(t *target) (func() error, error) {
	t.proxy.Drip(redistest.Both, 20*time.Microsecond)
	return surely(func() { t.proxy.Drip(redistest.Both, 0) }), nil
}

func chunk(t *target) (func() error, error) {
	t.proxy.Chunk(redistest.Down, 1)
	return surely(func() { t.proxy.Chunk(redistest.Down, 0) }), nil
}

func hold(d redistest.Direction) injection {
	return func(t *target) (func() error, error) {
		t.proxy.Pause(d)
		return surely(func() { t.proxy.Resume(d) }), nil
	}
}

// late has what is sent now arrive when the client has long given the
// connection up and shaken hands on another.
func late(t *target) (func() error, error) {
	t.proxy.Latency(t.life+200*ms, 0)
	time.Sleep(50 * ms) // so that something is sent
	t.proxy.Latency(0, 0)
	return nil, nil
}

// cut cuts somewhere in the next some ten thousand bytes, and more often soon:
// in the handshake, in a command, in a fence.
func cut(d redistest.Direction) injection {
	return func(t *target) (func() error, error) {
		t.proxy.CutOnce(d, int64(math.Exp(t.random.Float64()*10)))
		return surely(func() { t.proxy.Cut(d, -1) }), nil
	}
}

func halfOpen(t *target) (func() error, error) {
	t.proxy.HalfOpen()
	return nil, nil
}

func reset(t *target) (func() error, error) {
	t.proxy.Reset()
	return nil, nil
}

func refuse(t *target) (func() error, error) {
	t.proxy.Refuse(true)
	t.proxy.Reset()
	return t.accept, nil
}

// accept ends a refuse. Where another program keeps the port the proxy panics.
func (t *target) accept() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	t.proxy.Refuse(false)
	return nil
}

// surely is a heal that cannot fail.
func surely(do func()) func() error {
	return func() error {
		do()
		return nil
	}
}
