package faults

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/redmux/redmux/internal/proof/history"
	"github.com/redmux/redmux/internal/redistest"
)

// A crew is the client processes, one for each slot. A process that is killed is followed by another in its slot, with the
// same proxies.
type crew struct {
	run     *run
	command []string
	proxies [][]*redistest.Proxy // by slot; nil where the process reaches the nodes directly

	mu    sync.Mutex // guards the following
	slots []*process
	names int
	wg    sync.WaitGroup // their readers and writers
	ended bool
}

// A process is one client.
type process struct {
	name  int
	slot  int
	cmd   *exec.Cmd
	queue chan order
	ready chan struct{} // closed when it has told that it is
	gone  chan struct{} // closed when all that it told was read, and it is no more

	mu       sync.Mutex // guards the following
	expected bool       // that it dies
	resting  *resting   // the latest since it was ordered to rest
	samples  []Sample
}

// The four ways to be connected, by slot.
const (
	byUnix = iota
	byTCP
	byProxy
	byProxyPortable
	ways
)

// newCrew starts the processes and waits until each is ready.
func newCrew(r *run) (*crew, error) {
	c := &crew{run: r, command: r.options.Command}
	if len(c.command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("faults: %w", err)
		}
		c.command = []string{self}
	}
	c.slots = make([]*process, r.options.Processes)
	c.proxies = make([][]*redistest.Proxy, r.options.Processes)
	for slot := range c.slots {
		if err := c.addProxies(slot); err != nil {
			return nil, errors.Join(err, c.close())
		}
		if err := c.replace(slot); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *crew) addProxies(slot int) error {
	if slot%ways < byProxy {
		return nil
	}
	for _, s := range c.run.fleet.servers {
		p, err := redistest.NewProxy(s.UnixURL())
		if err != nil {
			return err
		}
		c.proxies[slot] = append(c.proxies[slot], p)
	}
	return nil
}

// replace starts a process in a slot and waits until it is ready.
func (c *crew) replace(slot int) error {
	p, err := c.start(slot)
	if err != nil {
		return err
	}
	select {
	case <-p.ready:
		return nil
	case <-p.gone:
		return fmt.Errorf("faults: process %d ended before it was ready", p.name)
	case <-time.After(time.Minute):
		return fmt.Errorf("faults: process %d did not become ready", p.name)
	}
}

func (c *crew) start(slot int) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, errors.New("faults: the run is over")
	}
	c.names++
	p := &process{
		name: c.names, slot: slot, queue: make(chan order, 1024), ready: make(chan struct{}), gone: make(chan struct{}),
	}
	p.cmd = exec.Command(c.command[0], c.command[1:]...)
	p.cmd.Env = append(os.Environ(), workerVariable+"=1")
	p.cmd.Stderr = c.run.options.log
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	if err := redistest.Spawn(p.cmd); err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	c.slots[slot] = p
	c.run.judge.join(p.name)
	p.order(order{Do: orderSetup, Setup: c.setup(p)})
	c.wg.Go(func() { p.write(in) })
	c.wg.Go(func() { c.read(p, out) })
	return p, nil
}

// setup shares the callers out: half of them come by unix sockets, the proxies' share is small, because their bytes cost
// this process time.
func (c *crew) setup(p *process) *setup {
	o := &c.run.options
	s := &setup{
		Name: p.name, Nodes: c.run.fleet.unixURLs(), Direct: c.run.fleet.sockets(), Password: c.run.fleet.password,
		MaxTTL: int64(o.MaxTTL), Callers: max(o.Callers/2, 1), Seed: o.Seed, Broken: o.Broken,
	}
	for _, k := range c.run.kinds {
		s.Kinds = append(s.Kinds, k.Name)
	}
	switch p.slot % ways {
	case byTCP:
		s.Nodes, s.Callers = c.run.fleet.tcpURLs(), max(o.Callers/4, 1)
	case byProxy, byProxyPortable:
		s.Nodes, s.Callers = redistest.URLs(c.proxies[p.slot]), max(o.Callers/8, 1)
		s.Portable = p.slot%ways == byProxyPortable
	}
	return s
}

// write sends orders. A process that is stopped does not read, and one that is killed never will: nobody waits for that.
func (p *process) write(in io.WriteCloser) {
	defer in.Close()
	encoder := json.NewEncoder(in)
	for {
		select {
		case o := <-p.queue:
			if encoder.Encode(o) != nil {
				return
			}
			if o.Do == orderStop {
				return
			}
		case <-p.gone:
			return
		}
	}
}

// order queues an order. One that finds the queue full is dropped: the process has been stopped for very long.
func (p *process) order(o order) {
	select {
	case p.queue <- o:
	default:
	}
}

// read takes in what a process tells until it ends.
func (c *crew) read(p *process, out io.Reader) {
	defer close(p.gone)
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 64<<10), 4<<20)
	last := false
	var broken, wrong error
	for wrong == nil && lines.Scan() {
		// Of one that is killed the last line may be cut off, but no other: events that are lost would hide a second holder.
		wrong = broken
		var ended bool
		ended, broken = c.take(p, lines.Bytes())
		last = last || ended
	}
	wrong = cmp.Or(wrong, lines.Err())
	if broken != nil && !p.mayDie() {
		wrong = cmp.Or(wrong, broken)
	}
	if wrong != nil {
		c.run.fail(fmt.Errorf("faults: process %d told what cannot be read: %w", p.name, wrong))
		c.expectDeath(p)
		_ = p.cmd.Process.Kill() // it would wait for ever to tell the rest
	}
	_ = p.cmd.Wait()
	c.run.judge.leave(p.name)
	c.run.results.fold(p.name)
	p.mu.Lock()
	defer p.mu.Unlock()
	c.run.retire(fmt.Sprint("process ", p.name), p.samples, p.expected)
	if !last && !p.expected {
		c.run.fail(fmt.Errorf("faults: process %d ended by itself: %v", p.name, p.cmd.ProcessState))
	}
}

// take takes in one line, and says whether it is the last.
func (c *crew) take(p *process, line []byte) (last bool, err error) {
	if bytes.HasPrefix(line, []byte(`{"t":`)) {
		var e history.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return false, err
		}
		c.run.judge.event(p.name, e)
		return false, nil
	}
	var t tale
	if err := json.Unmarshal(line, &t); err != nil {
		return false, err
	}
	c.hear(p, &t)
	return t.Last, nil
}

func (c *crew) hear(p *process, t *tale) {
	switch {
	case t.Beat != 0:
		c.run.judge.beat(p.name, t.Beat)
	case t.Ready:
		close(p.ready)
	case t.Tally != nil:
		c.run.results.tally(p.name, *t.Tally)
	case t.Tails != nil:
		c.run.results.tails(p.name, t.Tails)
	case t.Oddity != nil:
		c.run.judge.odd(*t.Oddity)
	case t.Counted != nil:
		c.run.results.counted(*t.Counted)
	case t.Resting != nil:
		p.mu.Lock()
		p.resting = t.Resting
		p.mu.Unlock()
	case t.Sample != nil:
		p.mu.Lock()
		p.samples = append(p.samples, *t.Sample)
		p.mu.Unlock()
	}
}

// at is the process of a slot.
func (c *crew) at(slot int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slots[slot]
}

// all are the processes that live.
func (c *crew) all() (list []*process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.slots {
		if p == nil {
			continue
		}
		select {
		case <-p.gone:
		default:
			list = append(list, p)
		}
	}
	return list
}

// expectDeath says that a process dies on purpose.
func (c *crew) expectDeath(p *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

func (p *process) mayDie() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expected
}

// stopLooks bounds how long processes may take to end, in looks as settleLooks does: twenty seconds' worth. Their callers leave
// within a second, and no Close of theirs waits for more than two.
const stopLooks = int(20 * time.Second / settleLook)

// stop has all processes end by themselves, and fails the run if one does not in so many looks.
func (c *crew) stop(looks int) {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	for _, p := range c.all() {
		p.order(order{Do: orderStop})
	}
	for range looks {
		if len(c.all()) == 0 {
			return
		}
		time.Sleep(settleLook)
	}
	for _, p := range c.all() {
		c.run.fail(fmt.Errorf("faults: process %d did not end", p.name))
	}
}

// close ends whatever is left.
func (c *crew) close() error {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	for _, p := range c.all() {
		c.expectDeath(p)
		_ = p.cmd.Process.Kill()
	}
	c.wg.Wait()
	for _, proxies := range c.proxies {
		for _, p := range proxies {
			p.Close()
		}
	}
	return nil
}
