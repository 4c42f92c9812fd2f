//go:build !race

package redistest

// Raceful is set under the race detector.
const Raceful = false
