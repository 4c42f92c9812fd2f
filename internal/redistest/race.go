//go:build race

package redistest

// raceful is set under the race detector.
const raceful = true
