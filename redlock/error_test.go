package redlock

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/redmux/redmux/multiplex"
	"github.com/stretchr/testify/require"
)

func TestTranslate(t *testing.T) { // R12
	undecided := &multiplex.UndecidedError{Nodes: []*multiplex.NodeError{
		{Node: 1, Addr: "b:6379", Err: multiplex.ErrTimeout},
		{Node: 2, Addr: "c:6379", Err: io.ErrUnexpectedEOF},
	}}
	for _, c := range []struct{ err, want error }{
		{nil, nil},
		{multiplex.ErrOverloaded, ErrOverloaded},
		{multiplex.ErrClosed, ErrClosed},
		{context.Canceled, context.Canceled},
		{context.DeadlineExceeded, context.DeadlineExceeded},
	} {
		require.Equal(t, c.want, translate(c.err, ErrHeld))
	}
	require.Equal(t, ErrHeld, translate(multiplex.ErrRefused, ErrHeld), "the sentinel itself")
	require.Equal(t, ErrNotHeld, translate(multiplex.ErrRefused, ErrNotHeld), "the sentinel itself")

	err := translate(undecided, ErrHeld)
	require.ErrorIs(t, err, ErrNoQuorum)
	require.ErrorIs(t, err, multiplex.ErrUndecided)
	require.ErrorIs(t, err, multiplex.ErrTimeout, "any node's cause is found")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotErrorIs(t, err, ErrHeld)
	var all *multiplex.UndecidedError
	require.ErrorAs(t, err, &all)
	require.Same(t, undecided, all)
	var one *multiplex.NodeError
	require.ErrorAs(t, err, &one)
	require.Equal(t, 1, one.Node)
	require.Equal(t, "redlock: no quorum of nodes answered: "+
		"node 1 (b:6379): no answer in time; node 2 (c:6379): unexpected EOF", err.Error())
}

func TestCancelledErrorIsContextCauseAndOutcome(t *testing.T) { // R12
	cause := errors.New("the user went away")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	err := cancelledError(ctx, ErrHeld)
	for _, is := range []error{context.Canceled, cause, ErrHeld} {
		require.ErrorIs(t, err, is)
	}
	require.NotErrorIs(t, err, ErrNoQuorum)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, "redlock: context canceled (the user went away); resource is held", err.Error())

	plain, stop := context.WithCancel(context.Background())
	stop()
	err = cancelledError(plain, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "redlock: context canceled", err.Error())
	require.Len(t, err.(*CancelledError).Unwrap(), 1)

	late, done := context.WithTimeout(context.Background(), -1)
	defer done()
	require.ErrorIs(t, cancelledError(late, nil), context.DeadlineExceeded)
	require.Nil(t, cancelledError(late, nil).(*CancelledError).Cause, "it is the context's error once more")
}

func TestOutcomesAreToldApart(t *testing.T) { // R12
	all := []error{ErrHeld, ErrNoQuorum, ErrExpired, ErrNotHeld, ErrOverloaded, ErrClosed, ErrResource, ErrTTL, ErrConfig}
	for i, a := range all {
		for j, b := range all {
			require.Equal(t, i == j, errors.Is(a, b), "%v is %v", a, b)
		}
		require.Regexp(t, "^redlock: ", a.Error())
	}
}
