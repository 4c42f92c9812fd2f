package redlock

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
)

// How all holds of a client end: by Drain, after a wait for their release, and
// by Close.

// A heldSet is the holds before their release. The keeper's mutex guards it.
type heldSet struct {
	all      []*Hold // by Hold.slot
	begun    uint64  // how many were ever added
	draining bool    // only holds that were acquired under a hold are added
	// drained is closed once the set is draining and empty; closed is then set.
	drained chan struct{}
	closed  bool
}

// unplaced is the slot of a hold outside the set.
const unplaced = -1

func (s *heldSet) add(h *Hold) {
	h.slot = len(s.all)
	s.all = append(s.all, h)
	s.begun++
}

// remove removes a hold. It may be called twice for a hold.
func (s *heldSet) remove(h *Hold) {
	if h.slot == unplaced {
		return
	}
	last := len(s.all) - 1
	s.all[h.slot] = s.all[last]
	s.all[h.slot].slot = h.slot
	s.all[last] = nil
	s.all = s.all[:last]
	h.slot = unplaced
	s.settle()
}

// settle closes drained for a draining, empty set: no hold is left to acquire
// another under.
func (s *heldSet) settle() {
	if s.draining && len(s.all) == 0 && !s.closed {
		s.closed = true
		close(s.drained)
	}
}

// strike removes a hold from the set after its release. It may be called twice
// for a hold.
func (k *keeper) strike(h *Hold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held.remove(h)
}

// kept returns the holds before their release. Under the mutex it only copies
// pointers.
func (k *keeper) kept() []*Hold {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.held.all)
}

// holds returns how many holds are not released yet, and how many there were.
func (k *keeper) holds() (now int, begun uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.held.all), k.held.begun
}

// drain makes the keeper refuse holds, except those acquired under a hold of
// this client. The channel is closed with the release of the last hold.
func (k *keeper) drain() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held.draining = true
	k.held.settle()
	return k.held.drained
}

// A winding is the state of ending all holds in Close. The keeper's goroutine
// owns it; Close waits on the channels.
type winding struct {
	begun      bool
	unreleased []*Hold // whose release is not queued yet
	pending    int     // releases that are queued and not answered
	// queued is closed once all holds have ended and all releases are queued;
	// allQueued is then set.
	queued    chan struct{}
	allQueued bool
	done      chan struct{} // closed when all releases are answered
}

// closeAll ends all holds taken from the schedule, and releases them with
// Config.ReleaseOnClose (R28).
func (k *keeper) closeAll() {
	w := &k.winding
	if w.begun {
		return
	}
	w.begun = true
	for _, h := range k.scratch.due {
		h.finish(ErrClosed)
	}
	if k.client.config.ReleaseOnClose {
		w.unreleased = append(w.unreleased, k.scratch.due...)
	}
	clear(k.scratch.due)
	w.pending++ // until the first are queued
	k.releaseUpTo(releasesAtOnce)
	k.released(nil)
}

// releaseUpTo queues releases until most are pending, or all are queued.
func (k *keeper) releaseUpTo(most int) {
	w := &k.winding
	for len(w.unreleased) > 0 && w.pending < most {
		h := w.unreleased[0]
		w.unreleased = w.unreleased[1:]
		lock, _ := h.finish(ErrClosed)
		if h.isDetached() {
			continue
		}
		if !lock.tenure.rise(tenureReleased, 0) {
			continue // it was handed over while Close began
		}
		r := newRounds(&lock)
		kind, command := h.undo(r)
		if err := k.client.group.PostRelease(kind, &command, multiplex.Posting{Inbox: k.inbox, Tag: k}); err == nil {
			w.pending++
		}
		r.recycle()
	}
	k.client.group.Flush()
	if len(w.unreleased) == 0 && !w.allQueued {
		w.allQueued = true
		close(w.queued)
	}
}

// released counts a release with an outcome. After half of the pending ones, it
// queues more: 10,000 at once would overflow the socket buffers, and the last
// answers would come after their vote timeout. After a release without an
// answer, it queues all the rest: Close must not wait for one timeout after
// another.
func (k *keeper) released(err error) {
	w := &k.winding
	w.pending--
	switch {
	case err != nil && err != multiplex.ErrRefused:
		k.releaseUpTo(math.MaxInt)
	case w.pending <= releasesAtOnce/2:
		k.releaseUpTo(releasesAtOnce)
	}
	if w.pending == 0 {
		close(w.done)
	}
}

// wind ends all holds, and waits for their releases, no longer than for the
// nodes' votes. After the end of ctx and of the group's patience, it waits only
// until all releases are queued. From now on keep refuses holds.
func (k *keeper) wind(ctx context.Context) {
	k.mu.Lock()
	k.closing = true
	running := k.started
	k.mu.Unlock()
	if !running {
		return
	}
	k.nudge()
	patience := time.NewTimer(max(pure.Soon, k.client.group.Patience()))
	defer patience.Stop()
	select {
	case <-k.winding.done:
		return
	case <-patience.C:
	}
	select {
	case <-k.winding.done:
	case <-ctx.Done():
		k.mu.Lock()
		k.hurried = true
		k.mu.Unlock()
		k.nudge()
		<-k.winding.queued
	}
}

// halt ends the goroutine. The group is closed, so nothing is in progress.
func (k *keeper) halt() {
	k.quit.once.Do(func() { close(k.quit.stop) })
	k.quit.wg.Wait()
}
