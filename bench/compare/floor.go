package compare

import (
	"context"
	"runtime"
	"time"

	"github.com/redmux/redmux/bench/compare/internal/floor"
)

// floorPairer is the lower bound behind Pairer. It serves one caller, whose goroutine it ties to its thread: the bound
// does without Go's scheduler, and shall not be charged for being moved by it.
type floorPairer struct {
	*floor.Floor
	tied bool
}

func openFloor(urls []string) (Pairer, error) {
	f, err := floor.Open(urls)
	if err != nil {
		return nil, err
	}
	return &floorPairer{Floor: f}, nil
}

// Pair returns no time of the acquisition: the bound is one of the pair. Its error is one of acquiring.
func (f *floorPairer) Pair(_ context.Context, resource string, ttl time.Duration, held func()) (time.Duration, error) {
	if !f.tied {
		runtime.LockOSThread()
		f.tied = true
	}
	if err := f.Floor.Pair(resource, ttl); err != nil {
		return 0, &acquireError{err}
	}
	return 0, nil
}

// Close closes its sockets.
func (f *floorPairer) Close(context.Context) error { return f.Floor.Close() }
