package main

import "time"

// alarm is a sleeper. It belongs to one goroutine.
type alarm interface {
	// wait returns true not before the clock shows due, and false when the phase
	// was halted before that.
	wait(due time.Duration, c clock) bool
	close()
}

// timerAlarm sleeps by a timer of Go's: as exactly as those are.
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
