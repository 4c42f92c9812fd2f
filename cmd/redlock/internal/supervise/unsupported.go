//go:build !unix

package supervise

import (
	"errors"
	"os"
	"time"
)

// A Guard does not exist here, so no command runs under a lock.
type Guard struct{}

// StartGuard returns an error.
func StartGuard(stdin, stdout, stderr *os.File) (*Guard, error) {
	return nil, errors.New("redlock run needs process groups and signals, which this system does not have")
}

// End does nothing.
func (*Guard) End() {}

// Run returns an error.
func (*Guard) Run(*Command) (Ending, error) { return Ending{}, errors.ErrUnsupported }

// RunHook returns an error.
func RunHook(string, []string, *os.File, *os.File, time.Duration) (code int, err error) {
	return 0, errors.ErrUnsupported
}

// AdoptOrphans does nothing.
func AdoptOrphans() {}

func beGuard(stdin, stdout string) {}
