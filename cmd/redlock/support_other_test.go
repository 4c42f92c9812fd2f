//go:build !unix

package main

import "os"

func stateCode(state *os.ProcessState) int { return state.ExitCode() }
