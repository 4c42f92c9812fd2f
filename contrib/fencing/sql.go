package fencing

import (
	"database/sql"

	"github.com/redmux/redmux/contrib/internal/door"
)

// Changed takes what Exec returned for a statement that changes a row only
// under a number that is high enough (docs/fencing.md, "SQL"). It returns
// ErrStale if no row was changed:
//
//	err := fencing.Changed(tx.ExecContext(ctx, statement, id, state, number))
//
// Not for MySQL, which by default does not count a row that had the new values
// already.
func Changed(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	door.Must(result != nil, "fencing: neither a result nor an error was given")
	rows, err := result.RowsAffected()
	if err != nil {
		return err
	}
	if rows == 0 {
		return ErrStale
	}
	return nil
}
