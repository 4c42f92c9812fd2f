package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
)

// listen asks for signals, but for those that we were started to ignore, as under nohup or in the background of a script:
// they stay ignored, also by a command that we run.
func listen(signals chan os.Signal, wanted ...os.Signal) {
	for _, s := range wanted {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
}

// interruptible is a context that the first signal ends, with an errInterrupted as its cause. stop waits for the goroutine
// that listens, and hands the channel back to the caller: a command that goes on after its wait sees to signals by itself.
func (p *process) interruptible(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-p.signals:
			cancel(&errInterrupted{s})
		case <-done:
		}
	})
	return ctx, func() {
		close(done)
		wg.Wait()
		cancel(nil)
	}
}
