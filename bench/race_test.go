//go:build race

package bench

// raceEnabled skips the counting of allocations: under the race detector a
// sync.Pool drops items at random.
const raceEnabled = true
