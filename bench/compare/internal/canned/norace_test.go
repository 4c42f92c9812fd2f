//go:build !race

package canned

const raceEnabled = false
