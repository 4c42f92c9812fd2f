package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
)

func TestExitCode(t *testing.T) {
	deadline := func(last error) error {
		return &redlock.CancelledError{Err: context.DeadlineExceeded, Last: last}
	}
	interrupted := &redlock.CancelledError{Err: context.Canceled, Cause: &errInterrupted{syscall.SIGTERM}, Last: redlock.ErrHeld}
	for _, test := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{redlock.ErrConfig, 64},
		{redlock.ErrTTL, 64},
		{redlock.ErrResource, 64},
		{redlock.ErrHoldOptions, 64},
		{redlock.ErrNoQuorum, 69},
		{redlock.ErrOverloaded, 69},
		{deadline(redlock.ErrNoQuorum), 69},
		{deadline(nil), 69},
		{redlock.ErrLost, 70},
		{redlock.ErrNotHeld, 70},
		{redlock.ErrExpired, 70},
		{redlock.ErrHeld, 75},
		{deadline(redlock.ErrHeld), 75},
		{interrupted, 143},
		{&exitError{42, redlock.ErrHeld}, 42},
		{fmt.Errorf("so: %w", &exitError{code: 3}), 3},
		{usagef("so"), 64},
	} {
		require.Equal(t, test.code, exitCode(test.err), "%v", test.err)
	}
}
