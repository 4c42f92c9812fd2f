//go:build race

package canned

// raceEnabled: the race detector allocates by itself, so nothing can be counted.
const raceEnabled = true
