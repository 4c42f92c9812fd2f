//go:build race

package single_test

// underRace is set if the race detector makes this process, but not the
// servers, five to ten times slower.
const underRace = true
