package load

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fdAlarm sleeps by a timerfd. Go's own timers may be a millisecond late in an
// idle process, which an open loop would count as latency. The goroutine parks
// as in a network read; no thread waits.
type fdAlarm struct {
	fd      int // the file's; asking the file for it would make it blocking
	file    *os.File
	spec    unix.ItimerSpec // not on the stack, so that a sleep does not allocate
	expired [8]byte
	closed  chan struct{}
	ended   chan struct{}
}

// newAlarm creates an alarm whose sleeps end when quit is closed. The caller
// must close it.
func newAlarm(quit <-chan struct{}) alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimerAlarm(quit)
	}
	a := &fdAlarm{fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), closed: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		select {
		case <-quit:
			a.file.SetReadDeadline(time.Unix(1, 0)) // wakes the sleeper
		case <-a.closed:
		}
	}()
	return a
}

func (a *fdAlarm) wait(due time.Duration, c clock) bool {
	for {
		d := due - c.now()
		if d <= 0 {
			return true
		}
		a.spec.Value = unix.NsecToTimespec(int64(d))
		if unix.TimerfdSettime(a.fd, 0, &a.spec, nil) != nil {
			return false // cannot happen: the time is positive and the descriptor ours
		}
		if _, err := a.file.Read(a.expired[:]); err != nil {
			return false
		}
	}
}

func (a *fdAlarm) close() {
	close(a.closed)
	<-a.ended
	a.file.Close()
}
