//go:build !race

package faults_test

const underRace = false
