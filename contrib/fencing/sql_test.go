package fencing

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// A counted is the result of a statement.
type counted struct {
	rows int64
	err  error
}

func (c counted) RowsAffected() (int64, error) { return c.rows, c.err }
func (counted) LastInsertId() (int64, error)   { return 0, errors.New("not asked for") }

func TestChanged(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	require.NoError(t, Changed(counted{rows: 1}, nil))
	require.NoError(t, Changed(counted{rows: 2}, nil))
	require.ErrorIs(t, Changed(counted{}, nil), ErrStale)
	require.Equal(t, failed, Changed(nil, failed))
	require.Equal(t, failed, Changed(counted{rows: 1, err: failed}, nil))
}
