package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// perf has the language and the options that countSyscalls expects, and sees
// all threads of a process.
func TestCountSyscalls(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	for range 2 {
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					for range 100 {
						_ = syscall.Getpid() // always a system call in Go
					}
				}
			}
		}()
	}
	n, took, err := countSyscalls(t.Context(), os.Getpid(), 200*time.Millisecond)
	if err != nil {
		t.Skipf("NOT COVERED: system calls are not counted here: %v", err)
	}
	assert.InDelta(t, 200*time.Millisecond, took, float64(500*time.Millisecond))
	assert.Greater(t, n, int64(500))
}

func TestCountSyscallsOfNobody(t *testing.T) {
	gone := exec.Command("true")
	require.NoError(t, gone.Run())
	_, _, err := countSyscalls(t.Context(), gone.Process.Pid, time.Millisecond)
	require.Error(t, err)
	assert.NotEmpty(t, strings.TrimSpace(err.Error()))
}
