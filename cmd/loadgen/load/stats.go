package load

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// stats writes the state of this process to a file: one JSON line a second and
// one at the end of each phase. A nil stats writes nothing.
type stats struct {
	clock clock
	file  *os.File
	addrs []string

	// Used only by the goroutine that watches the current phase.
	heap []metrics.Sample
	err  error // the first write error
}

// statsLine is one line. Scripts read it: fields are added, never renamed.
type statsLine struct {
	T          int64       `json:"t"` // on the history's clock
	Goroutines int         `json:"goroutines"`
	FDs        int         `json:"fds"` // 0 if unknown
	HeapBytes  uint64      `json:"heap_bytes"`
	InFlight   int64       `json:"in_flight"` // calls that have not returned
	Debts      int         `json:"debts"`     // releases that nodes have yet to confirm (R8)
	Nodes      []nodeState `json:"nodes"`
}

// nodeState has an empty state if the implementation does not report it.
type nodeState struct {
	Addr  string `json:"addr"`
	State string `json:"state"`
}

const statsInterval = time.Second

// createStats replaces the file of that name. addrs are the nodes' addresses
// for implementations that report none.
func createStats(name string, c clock, addrs []string) (*stats, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &stats{clock: c, file: file, addrs: addrs, heap: []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}}, nil
}

// watch writes lines until the returned function is called, which writes the
// last one.
func (s *stats) watch(p *phase, sys System) (stop func()) {
	if s == nil {
		return func() {}
	}
	end := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		tick := time.NewTicker(statsInterval)
		defer tick.Stop()
		for over := false; !over; {
			select {
			case <-tick.C:
			case <-end:
				over = true
			}
			s.write(s.line(p, sys))
		}
	})
	return func() {
		close(end)
		working.Wait()
	}
}

func (s *stats) line(p *phase, sys System) statsLine {
	metrics.Read(s.heap)
	l := statsLine{
		T:          s.clock.system(s.clock.now()),
		Goroutines: runtime.NumGoroutine(),
		FDs:        openDescriptors(),
		HeapBytes:  s.heap[0].Value.Uint64(),
		InFlight:   p.inFlight(),
	}
	for _, n := range sys.nodes() {
		l.Debts += n.Debts
		l.Nodes = append(l.Nodes, nodeState{n.Addr, string(n.State)})
	}
	if l.Nodes == nil {
		for _, addr := range s.addrs {
			l.Nodes = append(l.Nodes, nodeState{Addr: addr})
		}
	}
	return l
}

func (s *stats) write(l statsLine) {
	line, err := json.Marshal(l)
	if err == nil {
		_, err = s.file.Write(append(line, '\n'))
	}
	if s.err == nil {
		s.err = err
	}
}

// close reports whether all lines were written.
func (s *stats) close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.err, s.file.Close())
}

// openDescriptors returns the number of open descriptors, or 0 if it is
// unknown.
func openDescriptors() int {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(fds) - 1 // one was used to read the folder
}
