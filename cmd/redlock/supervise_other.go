//go:build !unix

package main

import (
	"errors"

	"github.com/redmux/redmux/redlock"
)

// A guard does not exist here, and so no command runs under a lock: nothing would stop it in time.
type guard struct{}

func (*runCommand) startGuard(*process) (*guard, error) {
	return nil, errors.New("redlock run needs process groups and signals, which this system does not have")
}

func (*guard) end() {}

func (*runCommand) supervise(*process, *redlock.Hold, string, *guard) (ending, error) {
	return ending{}, errors.ErrUnsupported
}

func beGuard(string) {}
