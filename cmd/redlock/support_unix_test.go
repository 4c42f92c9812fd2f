//go:build unix

package main

import (
	"os"
	"syscall"
)

// stateCode is the exit code as a shell has it.
func stateCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return state.ExitCode()
}
