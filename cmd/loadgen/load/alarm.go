package load

import "time"

// alarm sleeps for one goroutine.
type alarm interface {
	// wait returns true once the clock has reached due, and false if the phase
	// was halted before.
	wait(due time.Duration, c clock) bool
	close()
}

// timerAlarm sleeps by a Go timer, with that timer's accuracy.
type timerAlarm struct {
	quit  <-chan struct{}
	timer *time.Timer
}

func newTimerAlarm(quit <-chan struct{}) *timerAlarm {
	a := &timerAlarm{quit, time.NewTimer(time.Hour)}
	a.timer.Stop()
	return a
}

func (a *timerAlarm) wait(due time.Duration, c clock) bool {
	for {
		d := due - c.now()
		if d <= 0 {
			return true
		}
		a.timer.Reset(d)
		select {
		case <-a.timer.C:
		case <-a.quit:
			return false
		}
	}
}

func (a *timerAlarm) close() { a.timer.Stop() }
