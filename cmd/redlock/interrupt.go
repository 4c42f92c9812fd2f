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

// unlessInterrupted returns what do returns, or an errInterrupted if a signal
// comes before. do may block without end, as reading a terminal does, or opening
// a pipe that has no other end. After a signal its goroutine is left behind; the
// process ends right after.
func unlessInterrupted[T any](p *process, do func() (T, error)) (T, error) {
	ctx, stop := p.interruptible(context.Background())
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
	}
	stop()
	if interrupted := interrupted(ctx); interrupted != nil {
		return *new(T), interrupted // even if do has returned: otherwise the signal would be lost
	}
	return r.value, r.err
}
