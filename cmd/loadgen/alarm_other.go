//go:build !linux

package main

// newAlarm makes an alarm whose sleeps end when quit is closed. Close it.
func newAlarm(quit <-chan struct{}) alarm { return newTimerAlarm(quit) }
