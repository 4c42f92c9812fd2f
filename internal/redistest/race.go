//go:build race

package redistest

// Raceful is set under the race detector, which makes a test several times slower.
const Raceful = true
