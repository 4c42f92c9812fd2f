package main

import (
	"context"
	"sync"
)

// interruptible returns a context that the first signal ends, with an
// errInterrupted as its cause. stop ends the goroutine that receives signals, and
// waits for it; afterwards the channel is the caller's again.
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
