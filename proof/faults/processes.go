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

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/proof/history"
)

// processes are the clients, one for each slot. A process that is killed is
// replaced by another in its slot, with the same proxies.
type processes struct {
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
	ready chan struct{} // closed when it has told that it is ready
	gone  chan struct{} // closed when it has ended and all that it told was read

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

// newProcesses starts the processes and waits until each is ready.
func newProcesses(r *run) (*processes, error) {
	ps := &processes{run: r, command: r.options.Command}
	if len(ps.command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("faults: %w", err)
		}
		ps.command = []string{self}
	}
	ps.slots = make([]*process, r.options.Processes)
	ps.proxies = make([][]*redistest.Proxy, r.options.Processes)
	for slot := range ps.slots {
		if err := ps.addProxies(slot); err != nil {
			return nil, errors.Join(err, ps.close())
		}
		if err := ps.replace(slot); err != nil {
			return nil, errors.Join(err, ps.close())
		}
	}
	return ps, nil
}

func (ps *processes) addProxies(slot int) error {
	if slot%ways < byProxy {
		return nil
	}
	for _, s := range ps.run.fleet.servers {
		p, err := redistest.NewProxy(s.UnixURL())
		if err != nil {
			return err
		}
		ps.proxies[slot] = append(ps.proxies[slot], p)
	}
	return nil
}

// replace starts a process in a slot and waits until it is ready.
func (ps *processes) replace(slot int) error {
	p, err := ps.start(slot)
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

func (ps *processes) start(slot int) (*process, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.ended {
		return nil, errors.New("faults: the run is over")
	}
	ps.names++
	p := &process{
		name: ps.names, slot: slot, queue: make(chan order, 1024), ready: make(chan struct{}), gone: make(chan struct{}),
	}
	p.cmd = exec.Command(ps.command[0], ps.command[1:]...)
	p.cmd.Env = append(os.Environ(), workerVariable+"=1")
	p.cmd.Stderr = ps.run.options.log
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
	ps.slots[slot] = p
	ps.run.judge.join(p.name)
	p.order(order{Do: orderSetup, Setup: ps.setup(p)})
	ps.wg.Go(func() { p.write(in) })
	ps.wg.Go(func() { ps.read(p, out) })
	return p, nil
}

// setup shares the callers out: half of them use unix sockets, and few use
// proxies, whose bytes cost this process time.
func (ps *processes) setup(p *process) *setup {
	o := &ps.run.options
	s := &setup{
		Name: p.name, Nodes: ps.run.fleet.unixURLs(), Direct: ps.run.fleet.sockets(), Password: ps.run.fleet.password,
		MaxTTL: o.MaxTTL, Callers: max(o.Callers/2, 1), Seed: o.Seed, Broken: o.Broken,
	}
	switch p.slot % ways {
	case byTCP:
		s.Nodes, s.Callers = ps.run.fleet.tcpURLs(), max(o.Callers/4, 1)
	case byProxy, byProxyPortable:
		s.Nodes, s.Callers = redistest.URLs(ps.proxies[p.slot]), max(o.Callers/8, 1)
		s.Portable = p.slot%ways == byProxyPortable
	}
	return s
}

// write sends orders. Its caller does not wait for a process that is stopped or
// killed, and does not read.
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

// order queues an order, or drops it if the queue is full: then the process has
// been stopped for very long.
func (p *process) order(o order) {
	select {
	case p.queue <- o:
	default:
	}
}

// read reads what a process tells until it ends.
func (ps *processes) read(p *process, out io.Reader) {
	defer close(p.gone)
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 64<<10), 4<<20)
	last := false
	var broken, wrong error
	for wrong == nil && lines.Scan() {
		// The last line of a process that is killed may be cut off, but no
		// other: lost events would hide a second holder.
		wrong = broken
		var ended bool
		ended, broken = ps.take(p, lines.Bytes())
		last = last || ended
	}
	wrong = cmp.Or(wrong, lines.Err())
	if broken != nil && !p.mayDie() {
		wrong = cmp.Or(wrong, broken)
	}
	if wrong != nil {
		ps.run.fail(fmt.Errorf("faults: process %d told what cannot be read: %w", p.name, wrong))
		ps.expectDeath(p)
		_ = p.cmd.Process.Kill() // it would block for ever on the rest
	}
	_ = p.cmd.Wait()
	ps.run.judge.leave(p.name)
	ps.run.results.fold(p.name)
	p.mu.Lock()
	defer p.mu.Unlock()
	ps.run.retire(fmt.Sprint("process ", p.name), p.samples, p.expected)
	if !last && !p.expected {
		ps.run.fail(fmt.Errorf("faults: process %d ended by itself: %v", p.name, p.cmd.ProcessState))
	}
}

// take parses one line, and reports whether it is the last.
func (ps *processes) take(p *process, line []byte) (last bool, err error) {
	if bytes.HasPrefix(line, []byte(`{"t":`)) {
		var e history.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return false, err
		}
		ps.run.judge.event(p.name, e)
		return false, nil
	}
	var t tale
	if err := json.Unmarshal(line, &t); err != nil {
		return false, err
	}
	ps.hear(p, &t)
	return t.Last, nil
}

func (ps *processes) hear(p *process, t *tale) {
	switch {
	case t.Beat != 0:
		ps.run.judge.beat(p.name, t.Beat)
	case t.Ready:
		close(p.ready)
	case t.Tally != nil:
		ps.run.results.tally(p.name, t.Tally)
	case t.Oddity != nil:
		ps.run.judge.odd(*t.Oddity)
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

// at returns the process of a slot.
func (ps *processes) at(slot int) *process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.slots[slot]
}

// all returns the processes that live.
func (ps *processes) all() (list []*process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.slots {
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

// expectDeath notes that a process dies on purpose.
func (ps *processes) expectDeath(p *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

func (p *process) mayDie() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expected
}

// stopLooks bounds how long processes may take to end, in looks as settleLooks
// does: twenty seconds' worth. Their callers leave within a second, and none of
// their calls of Close waits for more than two.
const stopLooks = int(20 * time.Second / settleLook)

// stop tells all processes to end, and fails the run if one has not after so
// many looks.
func (ps *processes) stop(looks int) {
	ps.mu.Lock()
	ps.ended = true
	ps.mu.Unlock()
	for _, p := range ps.all() {
		p.order(order{Do: orderStop})
	}
	for range looks {
		if len(ps.all()) == 0 {
			return
		}
		time.Sleep(settleLook)
	}
	for _, p := range ps.all() {
		ps.run.fail(fmt.Errorf("faults: process %d did not end", p.name))
	}
}

// close ends what is left.
func (ps *processes) close() error {
	ps.mu.Lock()
	ps.ended = true
	ps.mu.Unlock()
	for _, p := range ps.all() {
		ps.expectDeath(p)
		_ = p.cmd.Process.Kill()
	}
	ps.wg.Wait()
	for _, proxies := range ps.proxies {
		for _, p := range proxies {
			p.Close()
		}
	}
	return nil
}
