//go:build unix

package adapters

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
)

// sessions returns separate sessions of a real PostgreSQL.
func sessions(t *testing.T, n int) (all []*sql.Conn) {
	t.Helper()
	db, err := place{"postgres", startPostgres(t)}.open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	for range n {
		c, err := db.Conn(t.Context())
		require.NoError(t, err)
		all = append(all, c)
	}
	return all
}

// says returns the answer to a question about a lock.
func says(t *testing.T, c *sql.Conn, question string) (yes bool) {
	t.Helper()
	require.NoError(t, c.QueryRowContext(t.Context(), question).Scan(&yes), question)
	return yes
}

func does(t *testing.T, c *sql.Conn, command string) {
	t.Helper()
	_, err := c.ExecContext(t.Context(), command)
	require.NoError(t, err, command)
}

// failsWith requires an error with a code of PostgreSQL.
func failsWith(t *testing.T, code string, err error) {
	t.Helper()
	var refused *pq.Error
	require.ErrorAs(t, err, &refused)
	require.EqualValues(t, code, refused.Code)
}

// What docs/migrating.md says of advisory locks, and marks as tried.
func TestAdvisoryLocksAreAsDescribed(t *testing.T) {
	all := sessions(t, 3)
	a, b, c := all[0], all[1], all[2]
	const try, unlock = "SELECT pg_try_advisory_lock(7)", "SELECT pg_advisory_unlock(7)"

	t.Run("a session's lock is counted, and shuts out others", func(t *testing.T) {
		require.True(t, says(t, a, try))
		require.True(t, says(t, a, try), "again")
		require.False(t, says(t, b, try))
		require.False(t, says(t, b, unlock), "it is not theirs, which is a warning and no error")
		require.True(t, says(t, a, unlock))
		require.False(t, says(t, b, try), "it was taken twice")
		require.True(t, says(t, a, unlock))
		require.True(t, says(t, b, try))
		does(t, b, "SELECT pg_advisory_unlock_all()")
		require.True(t, says(t, a, try))
		does(t, a, "SELECT pg_advisory_unlock_all()")
	})
	t.Run("a session's lock outlives a rollback, a transaction's does not", func(t *testing.T) {
		does(t, a, "BEGIN")
		require.True(t, says(t, a, try))
		does(t, a, "SELECT pg_advisory_xact_lock(8)")
		require.False(t, says(t, b, "SELECT pg_try_advisory_lock(8)"), "one space of keys")
		does(t, a, "ROLLBACK")
		require.False(t, says(t, b, try))
		require.True(t, says(t, b, "SELECT pg_try_advisory_xact_lock(8)"))
		require.True(t, says(t, a, unlock))
	})
	t.Run("a writer that waits keeps new readers out", func(t *testing.T) {
		does(t, a, "SELECT pg_advisory_lock_shared(9)")
		require.True(t, says(t, b, "SELECT pg_try_advisory_lock_shared(9)"))
		does(t, b, "SELECT pg_advisory_unlock_all()")
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := b.ExecContext(context.Background(), "SELECT pg_advisory_xact_lock(9)")
			if err != nil {
				t.Error(err)
			}
		})
		waits := "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
		require.Eventually(t, func() bool { return says(t, c, waits) }, 30*time.Second, time.Millisecond)
		does(t, c, "SET lock_timeout = '200ms'")
		_, err := c.ExecContext(t.Context(), "SELECT pg_advisory_lock_shared(9)")
		failsWith(t, "55P03", err) // lock_not_available: lock_timeout bounds a wait
		does(t, c, "RESET lock_timeout")
		does(t, a, "SELECT pg_advisory_unlock_all()")
		wg.Wait()
	})
	t.Run("a circle is found", func(t *testing.T) {
		does(t, a, "BEGIN; SELECT pg_advisory_xact_lock(1)")
		does(t, b, "BEGIN; SELECT pg_advisory_xact_lock(2)")
		errs := make(chan error, 2)
		for session, key := range map[*sql.Conn]string{a: "2", b: "1"} {
			go func() {
				_, err := session.ExecContext(context.Background(), "SELECT pg_advisory_xact_lock("+key+")")
				_, _ = session.ExecContext(context.Background(), "ROLLBACK") // lets the other one go on
				errs <- err
			}()
		}
		one := errors.Join(<-errs, <-errs)
		failsWith(t, "40P01", one) // deadlock_detected
	})
	t.Run("a session that ends gives back its locks at once, whatever its holder does", func(t *testing.T) {
		require.True(t, says(t, a, try))
		var pid int
		require.NoError(t, a.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		_, err := b.ExecContext(t.Context(), "SELECT pg_terminate_backend($1)", pid)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return says(t, b, try) }, 30*time.Second, time.Millisecond)
		_, err = a.ExecContext(t.Context(), "SELECT 1")
		require.Error(t, err, "its holder learns of it with the next statement")
	})
}
