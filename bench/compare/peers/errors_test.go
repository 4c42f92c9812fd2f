package peers

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/loadgen/load"
	"github.com/redmux/redmux/redlock"
)

func TestClassed_R12(t *testing.T) {
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	other := errors.New("other")
	for _, c := range []struct{ err, want error }{
		{redislock.ErrNotObtained, redlock.ErrHeld},
		{&redsync.ErrTaken{Nodes: []int{1, 2}}, redlock.ErrHeld},
		{errors.Join(&redsync.RedisError{Err: timeout}, &redsync.ErrTaken{}), redlock.ErrHeld},
		{redislock.ErrLockNotHeld, redlock.ErrNotHeld},
		{errors.Join(redsync.ErrLockAlreadyExpired), redlock.ErrNotHeld},
		{redsync.ErrFailed, redlock.ErrNoQuorum},
		{&redsync.RedisError{Err: timeout}, redlock.ErrNoQuorum},
		{&redsync.RedisError{Err: io.EOF}, redlock.ErrNoQuorum},
		{timeout, redlock.ErrNoQuorum},
		{errRefused, redlock.ErrNoQuorum},
		{context.Canceled, context.Canceled},
		{errors.Join(context.Canceled, &redsync.RedisError{Err: context.Canceled}), context.Canceled},
		{context.DeadlineExceeded, context.DeadlineExceeded},
		{redlock.ErrExpired, redlock.ErrExpired},
		{other, other},
	} {
		got := classed(c.err)
		assert.ErrorIs(t, got, c.want, "%v", c.err)
		assert.ErrorIs(t, got, c.err)
		for _, sentinel := range []error{redlock.ErrHeld, redlock.ErrNotHeld, redlock.ErrNoQuorum} {
			assert.Equal(t, sentinel == c.want, errors.Is(got, sentinel), "%v is %v", c.err, sentinel)
		}
	}
	assert.NoError(t, classed(nil))
}

func TestRedsyncError(t *testing.T) {
	some := errors.New("a master said no")
	assert.NoError(t, redsyncError(true, nil))
	assert.NoError(t, redsyncError(true, some), "a quorum released")
	assert.ErrorIs(t, redsyncError(false, some), some)
	assert.ErrorIs(t, redsyncError(false, nil), redlock.ErrNoQuorum)
}

// Masters whose URL has no password get that of the settings.
func TestEndpointsHaveThePassword(t *testing.T) {
	all, err := endpoints(load.Settings{URLs: []string{"redis://a:1", "redis://b:secret@c:1"}, Username: "u", Password: "p"})
	require.NoError(t, err)
	require.Equal(t, []string{"u", "p"}, []string{all[0].Username, all[0].Password})
	require.Equal(t, []string{"b", "secret"}, []string{all[1].Username, all[1].Password})
	_, err = endpoints(load.Settings{URLs: []string{"http://a"}})
	require.Error(t, err)
	_, err = All[len(All)-1].Client(load.Settings{URLs: []string{"http://a"}})
	require.Error(t, err)
}
