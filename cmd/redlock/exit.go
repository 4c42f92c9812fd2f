package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/redmux/redmux/redlock"
)

// The exit codes. redlock run passes on the exit code of its command instead,
// if nothing went wrong with the lock.
const (
	exitOK            = 0
	exitFailed        = 1   // anything without a code of its own
	exitUnsafe        = 2   // doctor: the deployment is unsafe
	exitUsage         = 64  // EX_USAGE: the command line, or what it names, is wrong; no node was asked for a lock
	exitNoQuorum      = 69  // EX_UNAVAILABLE: too few nodes answered to know
	exitLost          = 70  // EX_SOFTWARE: the lock is no longer ours, or not certainly
	exitHeld          = 75  // EX_TEMPFAIL: another client holds the lock
	exitInUse         = 78  // EX_CONFIG: init: the masters are in use, or partly
	exitTooLong       = 124 // as timeout(1) has it: --max-hold was reached
	exitNotExecutable = 126 // as shells have it
	exitNotFound      = 127 // as shells have it
	exitSignal        = 128 // plus the number of the signal that ended it
	exitPipe          = 141 // as shells have it for SIGPIPE: the reader of standard output is gone
)

// An exitError is an error with an exit code of its own. If err is nil, nothing
// is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// silent reports whether nothing is printed of an error: there is none, or it
// only has an exit code.
func silent(err error) bool {
	var own *exitError
	return err == nil || errors.As(err, &own) && own.err == nil
}

// message is the text of an error without the prefix, which the library and the
// program have in common.
func message(err error) string { return strings.TrimPrefix(err.Error(), "redlock: ") }

// usagef returns an error of usage.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// errInterrupted is the cause of a context that a signal ended.
type errInterrupted struct{ signal os.Signal }

func (e *errInterrupted) Error() string { return fmt.Sprintf("ended by signal: %v", e.signal) }

// exitCode returns the exit code of an error.
func exitCode(err error) int {
	var own *exitError
	var interrupted *errInterrupted
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &interrupted):
		return signalCode(interrupted.signal)
	case eventOf(err) != nil:
		return eventOf(err).code
	}
	return exitFailed
}

// An event is what the library reports. Its word says what happened (R12), the
// exit code what to do.
type event struct {
	err  error
	code int
}

var (
	wrongCall = &event{redlock.ErrConfig, exitUsage}
	noQuorum  = &event{redlock.ErrNoQuorum, exitNoQuorum}

	// events are in an order that matters: the error of a lost lock also matches
	// what the nodes answered.
	events = []*event{
		{redlock.ErrLost, exitLost},
		wrongCall, {redlock.ErrTTL, exitUsage}, {redlock.ErrResource, exitUsage}, {redlock.ErrHoldOptions, exitUsage},
		noQuorum, {redlock.ErrOverloaded, exitNoQuorum},
		{redlock.ErrHeld, exitHeld},
		{redlock.ErrNotHeld, exitLost}, {redlock.ErrExpired, exitLost},
	}
)

// eventOf returns what an error reports, or nil. A wait that was cut short is
// judged by its last attempt.
func eventOf(err error) *event {
	var cancelled *redlock.CancelledError
	var stranger *strangerError
	switch {
	case errors.As(err, &cancelled) && cancelled.Last != nil:
		return eventOf(cancelled.Last)
	case errors.As(err, &stranger):
		return wrongCall // what shares a name must agree on the kind
	}
	for _, e := range events {
		if errors.Is(err, e.err) {
			return e
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return noQuorum // without an attempt's error: no node answered in time
	}
	return nil
}

// isClosedPipe reports whether a write to standard output failed because its
// reader is gone. Connections to nodes can break too, but their errors are not
// *fs.PathError.
func isClosedPipe(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && failed.Op == "write" && failed.Path == os.Stdout.Name() && errors.Is(failed.Err, syscall.EPIPE)
}

func isOneOf(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// signalCode returns what shells return for a process that a signal ended.
func signalCode(s os.Signal) int {
	if number, ok := s.(syscall.Signal); ok {
		return exitSignal + int(number)
	}
	return exitFailed
}
