package load

import (
	"sync"
	"time"
)

// sample is what happened in one interval of a run.
type sample struct {
	at, length    time.Duration // its end, from the start of measuring; its length
	pairs         int64
	p50, p99, max time.Duration // of acquisitions
	outcomes      tally
	replyTimes    []time.Duration // per node; nil if nothing is known
}

// absorb merges a short sample into the one before it. The quantiles of the
// latter stay, except the largest latency.
func (s *sample) absorb(next sample) {
	s.at, s.length = next.at, s.length+next.length
	s.pairs += next.pairs
	s.max = max(s.max, next.max)
	if s.outcomes[granted] == 0 {
		s.p50, s.p99 = next.p50, next.p99
	}
	for o, n := range next.outcomes {
		s.outcomes[o] += n
	}
	s.replyTimes = next.replyTimes
}

// sampler takes samples of a phase in a goroutine of its own.
type sampler struct {
	phase    *phase
	system   System
	interval time.Duration
	window   latency       // of the interval; used only by the goroutine
	end      chan struct{} // closed by stop
	ended    chan struct{}

	mu      sync.Mutex // guards the following
	samples []sample
	total   tally
}

// sampleInterval gives some hundred samples of a short run and at most some
// thousand of a long one, so that memory is bounded; in between it is a second.
func sampleInterval(run time.Duration) time.Duration {
	return max(min(max(run/100, 100*time.Millisecond), time.Second), run/3600)
}

// startSampler begins to sample when the phase begins. The caller must call
// stop at its end.
func startSampler(p *phase, sys System) *sampler {
	s := &sampler{
		phase: p, system: sys,
		interval: sampleInterval(p.flags.Duration),
		window:   newLatency(),
		end:      make(chan struct{}), ended: make(chan struct{}),
	}
	go s.run()
	return s
}

// stop takes the last sample and returns all, in order of time.
func (s *sampler) stop() []sample {
	close(s.end)
	<-s.ended
	return s.samples
}

func (s *sampler) run() {
	defer close(s.ended)
	select {
	case <-s.phase.began:
	case <-s.end:
		return
	}
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	last, lastPairs := time.Duration(0), int64(0)
	for over := false; !over; {
		select {
		case <-tick.C:
		case <-s.end:
			over = true
		}
		now, pairs := s.phase.clock.now()-s.phase.before.at, s.phase.pairsSoFar()
		taken := sample{at: now, length: now - last, pairs: pairs - lastPairs}
		taken.outcomes = s.phase.recent.take(s.window)
		if s.window.TotalCount() > 0 {
			taken.p50 = time.Duration(s.window.ValueAtPercentile(50))
			taken.p99 = time.Duration(s.window.ValueAtPercentile(99))
			taken.max = time.Duration(s.window.Max())
		}
		for _, n := range s.system.nodes() {
			taken.replyTimes = append(taken.replyTimes, n.ReplyTime)
		}
		s.add(taken)
		last, lastPairs = now, pairs
	}
}

// add keeps a sample. If the last one is so short that its rates say nothing,
// it is merged into the one before.
func (s *sampler) add(taken sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.samples); n > 0 && taken.length < s.interval/2 {
		s.samples[n-1].absorb(taken)
	} else {
		s.samples = append(s.samples, taken)
	}
	for o, n := range taken.outcomes {
		s.total[o] += n
	}
}

// latest returns the last sample, and all outcomes until then; ok is false if
// there is none yet.
func (s *sampler) latest() (latest sample, total tally, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.samples) == 0 {
		return sample{}, s.total, false
	}
	return s.samples[len(s.samples)-1], s.total, true
}
