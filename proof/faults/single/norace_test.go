//go:build !race

package single_test

const underRace = false
