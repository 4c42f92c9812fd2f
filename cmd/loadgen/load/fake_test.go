package load

import (
	"context"
	"errors"
	"time"

	"github.com/redmux/redmux/bench"
	"github.com/redmux/redmux/redlock"
)

// fakeLocker grants every lock, or returns what try returns.
type fakeLocker struct {
	ttl time.Duration // of the validity, whatever the requested TTL
	try func() error
	// deaf makes an attempt end only with its context, and with the context's
	// error joined to this one.
	deaf error
}

type fakeLease struct {
	until time.Time
	token redlock.Token
	err   error
}

func (l fakeLease) Release(context.Context) error { return l.err }
func (l fakeLease) Until() time.Time              { return l.until }
func (l fakeLease) Token() redlock.Token          { return l.token }

func (f *fakeLocker) TryAcquire(ctx context.Context, _ string, _ time.Duration) (fakeLease, error) {
	if f.deaf != nil {
		<-ctx.Done()
		return fakeLease{}, errors.Join(ctx.Err(), f.deaf)
	}
	if f.try != nil {
		if err := f.try(); err != nil {
			return fakeLease{}, err
		}
	}
	return fakeLease{until: time.Now().Add(f.ttl)}, nil
}

func (f *fakeLocker) Acquire(ctx context.Context, resource string, ttl time.Duration) (fakeLease, error) {
	return f.TryAcquire(ctx, resource, ttl)
}

func (f *fakeLocker) Close(context.Context) error { return nil }

// opens makes the command use the fake under any name.
func (f *fakeLocker) opens(*flags, string, []string) (System, error) {
	return Drive[fakeLease](f), nil
}

var _ bench.Locker[fakeLease] = (*fakeLocker)(nil)

// unclosable never completes its releases.
type unclosable struct{ *fakeLocker }

func (unclosable) Close(context.Context) error { return context.DeadlineExceeded }

func (u unclosable) opens(*flags, string, []string) (System, error) { return Drive[fakeLease](u), nil }

// lossy grants locks, and its releases return an error.
type lossy struct{ err error }

func (l lossy) TryAcquire(context.Context, string, time.Duration) (fakeLease, error) {
	return fakeLease{until: time.Now().Add(time.Hour), err: l.err}, nil
}

func (l lossy) Acquire(ctx context.Context, resource string, ttl time.Duration) (fakeLease, error) {
	return l.TryAcquire(ctx, resource, ttl)
}

func (l lossy) Close(context.Context) error { return nil }

func (l lossy) opens(*flags, string, []string) (System, error) { return Drive[fakeLease](l), nil }
