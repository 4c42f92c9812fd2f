//go:build race

package single_test

// underRace: the race detector makes this process five to ten times slower and leaves the servers as they are.
const underRace = true
