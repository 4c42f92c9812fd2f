package single

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redmux/redmux/proof/faults/measure"
	"github.com/redmux/redmux/redlock"
)

// A rig is a site with one client under load.
type rig struct {
	fault  fault
	site   *site
	client *redlock.Client
	load   *load
}

// The phases of a rig's load.
const (
	betweenPhase = iota
	healthyPhase
	faultyPhase
	phases
)

// newRig starts all of it. Close it.
func newRig(ctx context.Context, name string, callers int) (*rig, error) {
	f, err := find(name)
	if err != nil {
		return nil, err
	}
	s, err := newSite(f)
	if err != nil {
		return nil, err
	}
	clients, err := s.clients(ctx, 1, redlock.Config{})
	if err != nil {
		s.close()
		return nil, err
	}
	return &rig{fault: f, site: s, client: clients[0], load: newLoad(clients, callers, phases)}, nil
}

func (r *rig) close() {
	r.load.end()
	_ = r.client.Close(context.Background())
	r.site.close()
}

// A load is callers in this process that acquire and release as fast as they
// can, each its own resources. The load of package faults, with its checks and
// processes, would disturb what is measured. A load's memory has its size from
// the beginning, so that the growth that is measured is redlock's.
type load struct {
	clients []*redlock.Client
	stop    context.CancelFunc
	ctx     context.Context
	wg      sync.WaitGroup

	phase  atomic.Int32
	phases []phase
}

// A phase has the attempts that ended in one part of a measurement.
type phase struct {
	grants, failures atomic.Uint64
	took             measure.Histogram // of the grants

	// Owned by the goroutine that calls to.
	lasted time.Duration
	begun  time.Time
}

const (
	// Nothing expires while it is measured, so that no attempt fails for want
	// of time.
	loadTTL = 30 * time.Second
	// loadResources is how many resources each caller takes in turn.
	loadResources = 4
	// failurePause is how long a caller waits after a failure, which may be
	// known at once.
	failurePause = time.Millisecond
)

// newLoad starts the callers, spread over the clients, in phase 0. End it.
func newLoad(clients []*redlock.Client, callers, phases int) *load {
	l := &load{clients: clients, phases: make([]phase, phases)}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.phases[0].begun = time.Now()
	for i := range callers {
		l.wg.Go(func() { l.call(i) })
	}
	return l
}

// to begins a phase, or goes on with it. Only one goroutine may call it.
func (l *load) to(phase int) {
	now := time.Now()
	was := &l.phases[l.phase.Load()]
	was.lasted += now.Sub(was.begun)
	l.phases[phase].begun = now
	l.phase.Store(int32(phase))
}

// end returns when every caller has released what it had. The numbers are final
// then.
func (l *load) end() {
	if l.ctx.Err() != nil {
		return
	}
	l.to(int(l.phase.Load()))
	l.stop()
	l.wg.Wait()
}

func (l *load) call(caller int) {
	client := l.clients[caller%len(l.clients)]
	var resources [loadResources]string
	for i := range resources {
		resources[i] = fmt.Sprintf("load:%d:%d", caller, i)
	}
	for n := 0; l.ctx.Err() == nil; n++ {
		// The attempts are not cancelled at the end, which would count as
		// failures.
		start := time.Now()
		lock, err := client.TryAcquire(context.Background(), resources[n%loadResources], loadTTL)
		took := time.Since(start)
		phase := &l.phases[l.phase.Load()]
		if err != nil {
			phase.failures.Add(1)
			time.Sleep(failurePause)
			continue
		}
		phase.grants.Add(1)
		phase.took.Add(took)
		_ = lock.Release(context.Background()) // other tests judge it
	}
}

// A Level is the acquisitions of one part of a measurement.
type Level struct {
	Lasted           time.Duration
	Grants, Failures uint64
	Rate             float64 // grants a second
	P50, P99         time.Duration
}

// level returns the figures of a phase.
func (l *load) level(phase int) Level {
	p := &l.phases[phase]
	return Level{
		Lasted: p.lasted, Grants: p.grants.Load(), Failures: p.failures.Load(),
		Rate: ratio(float64(p.grants.Load()), p.lasted.Seconds()),
		P50:  p.took.Quantile(0.5), P99: p.took.Quantile(0.99),
	}
}
