package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// A Kind is one way in which things go wrong.
type Kind struct {
	Name, About string
	Scope       Scope
	// weight is how often it is drawn relative to the others of its scope.
	// Kinds that break connections are rare, since clients connect at most 75
	// times a minute (R26), and so are those that cost a quarantine.
	weight int
	// least and most bound how long it lasts. If both are zero it is over at
	// once.
	least, most time.Duration
	// leaves is set for kinds after which keys are most easily left behind:
	// what was sent may yet be executed.
	leaves bool
	// forgets is set if the node loses its keys, so that a lock may rightly be
	// lost.
	forgets bool
	inject  func(t *target) (heal func() error, err error)
}

// Scope is what a fault affects.
type Scope string

// The scopes.
const (
	OfNode    Scope = "node"    // a server, for all clients
	OfLink    Scope = "link"    // what lies between one process and one node
	OfProcess Scope = "process" // a client process
	OfFleet   Scope = "fleet"   // all servers; nothing else is wrong meanwhile
)

// A target is a kind of fault bound to what it affects.
type target struct {
	kind   *Kind
	ctx    context.Context
	random *rand.Rand
	life   time.Duration // how long it will last

	fleet     *fleet
	node      int
	server    *redistest.Server
	side      *redistest.Side
	proxy     *redistest.Proxy // OfLink only
	processes *processes       // OfProcess and OfFleet only
	slot      int
}

// Inject makes the fault and returns how it is healed. heal must be called
// once; it may wait until the fault is over by itself.
func (t *target) Inject(ctx context.Context) (heal func() error, err error) {
	t.ctx = ctx
	heal, err = t.kind.inject(t)
	if err != nil {
		return nil, fmt.Errorf("faults: %s: %w", t.kind.Name, err)
	}
	if heal == nil {
		heal = func() error { return nil }
	}
	return heal, nil
}

// Kinds lists what can be injected, nodes first. Those of clocks need a C
// compiler, see redistest.ClocksAvailable.
func Kinds() []*Kind {
	return slices.Concat(nodeKinds(), clockKinds(), linkKinds(), processKinds(), fleetKinds())
}

// chosen returns the named kinds. Without names, it returns all that this
// machine can make.
func chosen(names []string) ([]*Kind, error) {
	all := Kinds()
	if len(names) == 0 {
		if clocksAvailable() != nil {
			all = slices.Concat(nodeKinds(), linkKinds(), processKinds(), fleetKinds())
		}
		return all, nil
	}
	var some []*Kind
	for _, name := range names {
		i := slices.IndexFunc(all, func(k *Kind) bool { return k.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("faults: there is no kind %q", name)
		}
		some = append(some, all[i])
	}
	return some, nil
}

// lifetime draws how long a fault lasts.
func (k *Kind) lifetime(random *rand.Rand) time.Duration {
	if k.most <= k.least {
		return k.least
	}
	return k.least + time.Duration(random.Int64N(int64(k.most-k.least)))
}

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

// processKinds are what can befall a client.
func processKinds() []*Kind {
	kinds := []*Kind{
		{Name: "client-kill-9", About: "kill -9 of a client, then another takes its place",
			weight: 1, least: 5 * ms, most: 100 * ms, inject: killClient},
		{Name: "client-stop", About: "SIGSTOP of a client, within its validities",
			weight: 6, least: 5 * ms, most: 200 * ms, inject: stopClient},
		{Name: "client-stop-long", About: "SIGSTOP of a client past its validities",
			weight: 1, least: pastValidity, inject: stopClient},
	}
	for _, k := range kinds {
		k.Scope = OfProcess
	}
	return kinds
}

// pastValidity stands for a little more than MaxTTL, which only the run knows.
const pastValidity time.Duration = 1

func stopClient(t *target) (func() error, error) {
	p := t.processes.at(t.slot)
	if err := redistest.StopProcess(p.cmd.Process); err != nil {
		return nil, err
	}
	return func() error { return redistest.ContinueProcess(p.cmd.Process) }, nil
}

func killClient(t *target) (func() error, error) {
	p := t.processes.at(t.slot)
	t.processes.expectDeath(p)
	if err := p.cmd.Process.Kill(); err != nil {
		return nil, err
	}
	<-p.gone
	return func() error { return t.processes.replace(t.slot) }, nil
}

// clockKinds are what the promise allows a node's clock to do: to run at
// another rate, within the drift factor, and to step back, which makes keys
// live longer. A step forward is outside of it where a lock was granted by
// exactly a quorum, and there always are some in a run; redlock's own tests
// show what comes of it (redlock/faults_clients_test.go).
func clockKinds() []*Kind {
	kinds := []*Kind{
		{Name: "clock-rate", About: "the node's clock runs up to 0.9 % fast or slow from now on",
			weight: 2, inject: clockRate},
		{Name: "clock-back", About: "the node's clock steps back by up to 0.3 s", weight: 2, inject: clockBack},
	}
	for _, k := range kinds {
		k.Scope = OfNode
	}
	return kinds
}

// clocksAvailable says why nodes cannot have clocks of their own here; nil if
// they can.
func clocksAvailable() error { return redistest.ClocksAvailable() }

const (
	// mostRate is by how much a clock is wrong at most. The drift factor is a
	// hundredth, for both clocks together, and the processes' are right.
	mostRate = 0.009
	mostBack = 300 * time.Millisecond
)

func clockRate(t *target) (func() error, error) {
	part := 1.0 // mostly as fast as may be: keys that end early are what the drift is for, and it takes a quorum of them
	if t.random.IntN(3) == 0 {
		part = 2*t.random.Float64() - 1
	}
	t.server.Clock().SetRate(1 + mostRate*part)
	return nil, nil
}

func clockBack(t *target) (func() error, error) {
	t.server.Clock().Jump(-time.Duration(t.random.Int64N(int64(mostBack))))
	return nil, nil
}

// fleetKinds are what concerns all servers.
func fleetKinds() []*Kind {
	kinds := []*Kind{
		{Name: powerKind, About: "kill -9 of all servers at once, then empty restarts",
			weight: 1, least: 1 * ms, most: 300 * ms, forgets: true, inject: loseAll},
		{Name: "misconfigured", About: "a client that names all servers but one: it must get no lock (R30)",
			weight: 2, inject: misconfigured},
	}
	for _, k := range kinds {
		k.Scope = OfFleet
	}
	return kinds
}

// powerKind is the one after which the fence must be reset.
const powerKind = "power"

// each does something to all servers at once.
func (t *target) each(do func(one *target) error) error {
	errs := make([]error, len(t.fleet.servers))
	var wg sync.WaitGroup
	for i := range errs {
		one := *t
		one.node, one.server, one.side = i, t.fleet.servers[i], t.fleet.sides[i]
		wg.Go(func() { errs[i] = do(&one) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func loseAll(t *target) (func() error, error) {
	if err := t.each(func(one *target) error { return one.server.Kill() }); err != nil {
		return nil, err
	}
	return func() error { return t.each((*target).restart) }, nil
}

// sealed reports whether every server belongs to a deployment: otherwise another
// set than the right one could be opened.
func (t *target) sealed() bool {
	return nil == t.each(func(one *target) error {
		said, err := one.side.Do("GET", prefix+"redlock:seal")
		text, _ := said.(string)
		if seal, _ := pure.ParseSeal(text); err == nil && seal.Open == (pure.Identity{}) {
			err = errUnsealed
		}
		return err
	})
}

var errUnsealed = errors.New("a server belongs to no deployment")

// misconfigured starts a client for some of the servers. It is refused as soon
// as it has seen the seal of one of them.
func misconfigured(t *target) (func() error, error) {
	urls := t.fleet.unixURLs()
	if len(urls) == 1 {
		return nil, nil
	}
	for wait := time.Now().Add(mostPatience); !t.sealed(); time.Sleep(10 * ms) {
		if time.Now().After(wait) {
			return nil, errUnsealed
		}
	}
	c, err := redlock.New(t.ctx, t.fleet.config(urls[:len(urls)-1], t.processes.run.options.MaxTTL))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close(context.Background()) }()
	ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
	defer cancel()
	_, err = c.Acquire(ctx, "misconfigured", time.Second)
	switch {
	case err == nil:
		t.processes.run.judge.find("R30: a client that names other servers than the rest got a lock")
		return nil, nil
	case !errors.Is(err, redlock.ErrDeployment) && t.ctx.Err() == nil:
		return nil, fmt.Errorf("it was not refused for its deployment: %w", err)
	}
	return nil, nil
}
