package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/assert"

	"github.com/redmux/redmux/redlock"
)

type secretError struct{}

func (secretError) Error() string { return "127.0.0.1:6379 password" }

func TestRedsyncError(t *testing.T) {
	some := errors.New("a master said no")
	assert.NoError(t, RedsyncError(true, nil))
	assert.NoError(t, RedsyncError(true, some), "a quorum released")
	assert.Equal(t, some, RedsyncError(false, some))
	assert.Error(t, RedsyncError(false, nil))
}

func TestKind(t *testing.T) {
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&acquireError{redlock.ErrHeld}, "acquire: held"},
		{&acquireError{redislock.ErrNotObtained}, "acquire: held"},
		{&acquireError{&redsync.ErrTaken{Nodes: []int{1, 2}}}, "acquire: held"},
		{&releaseError{redlock.ErrNotHeld}, "release: not held"},
		{&releaseError{redislock.ErrLockNotHeld}, "release: not held"},
		{&releaseError{errors.Join(redsync.ErrLockAlreadyExpired)}, "release: not held"},
		{&acquireError{redlock.ErrExpired}, "acquire: expired"},
		{&acquireError{redlock.ErrOverloaded}, "acquire: overloaded"},
		{&acquireError{fmt.Errorf("five: %w", redlock.ErrNoQuorum)}, "acquire: no quorum"},
		{&acquireError{redsync.ErrFailed}, "acquire: no quorum"},
		{&acquireError{&redsync.RedisError{Err: context.DeadlineExceeded}}, "acquire: timeout"},
		{&acquireError{&redsync.RedisError{Err: timeout}}, "acquire: timeout"},
		{&acquireError{&redsync.RedisError{Err: io.EOF}}, "acquire: network"},
		{&releaseError{&redsync.RedisError{Err: errors.New("ERR")}}, "release: no quorum"},
		{&releaseError{errRefused}, "release: no quorum"},
		{&acquireError{secretError{}}, "acquire: compare.secretError"}, // never its text
	} {
		assert.Equal(t, c.want, Kind(c.err), "%T %v", c.err, c.err)
	}
}
