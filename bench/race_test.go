//go:build race

package bench

// raceEnabled: under the race detector a sync.Pool forgets at random, so
// allocations are not counted.
const raceEnabled = true
