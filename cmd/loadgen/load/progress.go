package load

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress reports on standard error: on a terminal as a line that is
// overwritten, elsewhere now and then as a new line.
type progress struct {
	live     bool
	dim      bool
	width    func() int    // of the terminal
	interval time.Duration // between lines

	mu sync.Mutex // guards the following: faults report from their own goroutines
	w  io.Writer
}

// liveInterval is short enough to look alive and long enough for a rate;
// plainInterval is long enough for a log.
const (
	liveInterval  = 250 * time.Millisecond
	plainInterval = 5 * time.Second
)

// newProgress is silent if quiet. NO_COLOR disables the color, which is a dim
// line: the result below is what matters.
func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, interval: plainInterval}
	if quiet {
		p.w = io.Discard
	}
	if f, ok := p.w.(*os.File); ok && os.Getenv("TERM") != "dumb" && terminalWidth(f) > 0 {
		p.live, p.interval = true, liveInterval
		p.width = func() int { return terminalWidth(f) }
		p.dim = os.Getenv("NO_COLOR") == ""
	}
	return p
}

// clearLine moves to the start of the line and clears it.
const clearLine = "\r\x1b[K"

// say writes one plain line.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		io.WriteString(p.w, clearLine)
	}
	fmt.Fprintf(p.w, "loadgen: "+format+"\n", args...)
}

// watch shows the phase until the returned function is called, which waits for
// the last output.
func (p *progress) watch(title string, ph *phase, s *sampler) (stop func()) {
	p.say("%s", title)
	end := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() { p.show(ph, s, end) })
	return func() {
		close(end)
		working.Wait()
	}
}

// show reports the progress of the phase until the end, with the rate since the
// last report.
func (p *progress) show(ph *phase, s *sampler, end <-chan struct{}) {
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	start := ph.clock.now()
	last, lastPairs := start, int64(0)
	for {
		select {
		case <-end:
			p.overwrite("")
			return
		case <-tick.C:
		}
		now, pairs := ph.clock.now(), ph.pairsSoFar()
		line := fmt.Sprintf("%5.1fs  %s pairs/s", (now - start).Seconds(), thousands(float64(pairs-lastPairs)/(now-last).Seconds()))
		if latest, total, ok := s.latest(); ok {
			line += "  p99 " + latest.p99.Round(time.Microsecond).String() + "  " + total.String()
		}
		last, lastPairs = now, pairs
		if p.live {
			p.overwrite(line)
		} else {
			p.say("%s", line)
		}
	}
}

// overwrite replaces the live line, cut to the width of the terminal: a wrapped
// line cannot be overwritten.
func (p *progress) overwrite(text string) {
	if !p.live {
		return
	}
	if width := p.width(); width > 0 && len([]rune(text)) >= width {
		text = string([]rune(text)[:width-1])
	}
	if p.dim && text != "" {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	io.WriteString(p.w, clearLine+text)
}
