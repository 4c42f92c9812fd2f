//go:build !linux

package load

// newAlarm creates an alarm whose sleeps end when quit is closed. The caller
// must close it.
func newAlarm(quit <-chan struct{}) alarm { return newTimerAlarm(quit) }
