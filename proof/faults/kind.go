package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redmux/redmux/internal/redistest"
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
