package trial

import (
	"context"
	"fmt"
	"time"
)

// Delayed is the result of a release that one master received late.
type Delayed struct {
	Trials int
	// Granted is in how many of them a later attempt of the same call was
	// granted while that release was under way.
	Granted int
	// Second is in how many another client was granted the lock too, within the
	// first's validity, after the release had arrived.
	Second int
}

// Delay makes a first attempt fail, since other holders have the lock on all
// masters but one, and keeps back its release to that one. Then just so many
// others are freed that a later attempt needs that master's vote. Then the
// release arrives.
func Delay(ctx context.Context, s *Subject, trials int) (Delayed, error) {
	var result Delayed
	for i := range trials {
		granted, second, err := delayOnce(ctx, s, fmt.Sprint("delayed-", i))
		if err != nil {
			return Delayed{}, err
		}
		result.Trials++
		if granted {
			result.Granted++
		}
		if second {
			result.Second++
		}
	}
	return result, nil
}

// patience is how long a call goes on trying. go-redis waits 5 s by default for
// the answer to the release, and sends it again.
const patience = 12 * time.Second

func delayOnce(ctx context.Context, s *Subject, resource string) (granted, second bool, err error) {
	f, err := newField(ctx, s, 0)
	if err != nil {
		return false, false, err
	}
	defer f.close()
	w, err := newWire(f.servers[0].TCPAddr(), resource)
	if err != nil {
		return false, false, err
	}
	defer w.close()
	throughWire := append([]string{"redis://" + w.addr()}, f.urls[1:]...)
	first, err := s.open(throughWire)
	if err != nil {
		return false, false, err
	}
	defer first.Close()
	if err := f.occupy(resource, 1, 2, 3, 4); err != nil {
		return false, false, err
	}
	type outcome struct {
		lock Lock
		err  error
	}
	done := make(chan outcome, 1)
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	go func() {
		lock, err := first.Acquire(patient, resource, 2*mostTTL)
		done <- outcome{lock, err}
	}()
	select {
	case <-w.seen:
	case o := <-done:
		return false, false, fmt.Errorf("trial: no release was sent before the call ended: %v", o.err)
	}
	if err := f.vacate(resource, 1, 2); err != nil {
		return false, false, err
	}
	o := <-done
	w.letGo()
	if o.err != nil {
		return false, false, nil
	}
	time.Sleep(200 * time.Millisecond) // the release arrives, and does what it does
	if err := f.vacate(resource, 3, 4); err != nil {
		return true, false, err
	}
	other, err := s.open(f.urls)
	if err != nil {
		return true, false, err
	}
	defer other.Close()
	for range 20 {
		if lock, err := other.TryAcquire(ctx, resource, mostTTL); err == nil {
			second := time.Until(o.lock.Until()) > 0
			_ = lock.Release(ctx)
			return true, second, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true, false, nil
}
