package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress tells on standard error what goes on: on a terminal a line that is
// written over, elsewhere one line per run.
type progress struct {
	w    io.Writer
	live bool
	dim  bool
}

// newProgress is silent when quiet. NO_COLOR takes the colour away, which is
// a dim line: the result below is what matters.
func newProgress(w io.Writer, quiet bool) *progress {
	if quiet {
		w = io.Discard
	}
	live := isTerminal(w)
	return &progress{w: w, live: live, dim: live && os.Getenv("NO_COLOR") == ""}
}

// isTerminal guesses as most programs do: a character device that is not dumb.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// say writes one plain line.
func (p *progress) say(format string, args ...any) {
	fmt.Fprintf(p.w, "loadgen: "+format+"\n", args...)
}

// liveInterval is often enough to look alive and long enough for a rate.
const liveInterval = 250 * time.Millisecond

// watch shows the phase until the returned function is called, which waits for
// the last writing.
func (p *progress) watch(title string, ph *phase) (stop func()) {
	if !p.live {
		p.say("%s", title)
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		p.show(title, ph, end)
	}()
	return func() {
		close(end)
		<-ended
	}
}

// show writes the line over until the end, with the rate since the last time.
func (p *progress) show(title string, ph *phase, end <-chan struct{}) {
	tick := time.NewTicker(liveInterval)
	defer tick.Stop()
	const clear = "\r\x1b[K"
	start, last, lastPairs := ph.clock.now(), ph.clock.now(), int64(0)
	for {
		select {
		case <-end:
			fmt.Fprint(p.w, clear)
			return
		case <-tick.C:
		}
		now, pairs := ph.clock.now(), ph.pairsSoFar()
		rate := float64(pairs-lastPairs) / (now - last).Seconds()
		last, lastPairs = now, pairs
		line := fmt.Sprintf("%s  %4.1fs  %s pairs/s", title, (now - start).Seconds(), thousands(rate))
		if p.dim {
			line = "\x1b[2m" + line + "\x1b[0m"
		}
		fmt.Fprint(p.w, clear+line)
	}
}
