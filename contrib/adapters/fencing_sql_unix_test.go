//go:build unix

package adapters

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/redmux/redmux/contrib/fencing"
)

// A place is where a database/sql driver finds a database.
type place struct{ Driver, Address string }

func (p place) open() (*sql.DB, error) { return sql.Open(p.Driver, p.Address) }

// inSQLite is a new database in a file. A writer waits for another.
func inSQLite(t *testing.T) place {
	return place{"sqlite", "file:" + filepath.Join(t.TempDir(), "invoices") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(30000)"}
}

// onDatabases runs a test on SQLite, and on PostgreSQL where there is one.
func onDatabases(t *testing.T, test func(t *testing.T, db *sql.DB)) {
	t.Helper()
	for _, p := range []place{inSQLite(t), {"postgres", startPostgres(t)}} {
		t.Run(p.Driver, func(t *testing.T) {
			if p.Address == "" {
				t.Skip("NOT COVERED: PostgreSQL, as its programs are not installed")
			}
			db, err := p.open()
			require.NoError(t, err)
			defer db.Close()
			test(t, db)
		})
	}
}

// judge makes the table anew and tries what a write must accept and refuse. It
// returns what the statements do wrong.
func (s statements) judge(ctx context.Context, db *sql.DB) (wrong error) {
	if _, err := db.ExecContext(ctx, "DROP TABLE IF EXISTS invoice"); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, s.create); err != nil {
		return err
	}
	steps := []struct {
		id     string
		number any
		want   string // "" for written, "stale", or "error" for another reason
	}{
		{"7", 5, ""}, // a new row
		{"7", 5, ""}, // a holder writes more than once
		{"7", 6, ""},
		{"7", 5, "stale"},
		{"7", 10, ""}, // compared as numbers, not as texts
		{"7", 9, "stale"},
		{"8", 1, ""}, // another row
		{"7", uint64(1764000000123456), ""},
		{"7", uint64(1764000000123455), "stale"},
		{"7", uint64(fencing.Last), ""},
		{"7", uint64(fencing.Last - 1), "stale"},
		{"7", uint64(fencing.Last + 1), "error"},
		{"9", 0, "error"}, // of a client without Config.Fenced
		{"9", -1, "error"},
		{"9", nil, "error"},
		{"9", "unpaid", "error"},
		{"8", 0, "error"},
	}
	last := map[string]string{}
	for i, step := range steps {
		state := fmt.Sprint("state ", i)
		err := fencing.Changed(db.ExecContext(ctx, s.write, step.id, state, step.number))
		got := ""
		switch {
		case fencing.Refused(err):
			got = "stale"
		case err != nil:
			got = "error"
		default:
			last[step.id] = state
		}
		if got != step.want {
			wrong = errors.Join(wrong, fmt.Errorf("%v in row %s: %q (%v), not %q", step.number, step.id, got, err, step.want))
		}
	}
	for _, id := range []string{"7", "8", "9"} {
		var state string
		err := db.QueryRowContext(ctx, "SELECT state FROM invoice WHERE id = $1", id).Scan(&state)
		if state != last[id] || err != nil && !errors.Is(err, sql.ErrNoRows) {
			wrong = errors.Join(wrong, fmt.Errorf("row %s is %q, not %q: %w", id, state, last[id], err))
		}
	}
	return wrong
}

// The statements of the document do what they should, and none of their parts
// can be left out.
func TestSQLStatements(t *testing.T) {
	s := shownStatements(t)
	onDatabases(t, func(t *testing.T, db *sql.DB) {
		require.NoError(t, s.judge(t.Context(), db))
		for name, change := range map[string]func(s *statements){
			"no comparison": func(s *statements) { s.write, _, _ = strings.Cut(s.write, "WHERE") },
			"<":             func(s *statements) { s.write = strings.Replace(s.write, "<=", "<", 1) },
			"as text": func(s *statements) {
				s.write = strings.Replace(s.write, "invoice.fence <= excluded.fence",
					"CAST(invoice.fence AS text) <= CAST(excluded.fence AS text)", 1)
			},
			"the number is not stored": func(s *statements) { s.write = strings.Replace(s.write, ", fence = excluded.fence", "", 1) },
			"no CHECK":                 func(s *statements) { s.create, _, _ = strings.Cut(s.create, " CHECK"); s.create += ")" },
			"no NOT NULL":              func(s *statements) { s.create = strings.Replace(s.create, "fence bigint NOT NULL", "fence bigint", 1) },
		} {
			broken := s
			change(&broken)
			require.NotEqual(t, s, broken, name)
			require.Error(t, broken.judge(t.Context(), db), "%s is not noticed", name)
		}
	})
}

// A read under a number keeps older holders out, as a write does.
func TestSQLReadRaisesTheNumber(t *testing.T) {
	s := shownStatements(t)
	onDatabases(t, func(t *testing.T, db *sql.DB) {
		ctx := t.Context()
		_, err := db.ExecContext(ctx, s.create)
		require.NoError(t, err)
		write := func(state string, number int) error {
			return fencing.Changed(db.ExecContext(ctx, s.write, "7", state, number))
		}
		var state string
		require.NoError(t, write("open", 5))
		require.NoError(t, db.QueryRowContext(ctx, s.read, 6, "7").Scan(&state))
		require.Equal(t, "open", state)
		require.ErrorIs(t, write("late", 5), fencing.ErrStale)
		require.ErrorIs(t, db.QueryRowContext(ctx, s.read, 5, "7").Scan(&state), sql.ErrNoRows)
		require.NoError(t, write("paid", 6))
	})
}

// Rows that were there before the column get one that any holder's number
// reaches.
func TestSQLColumnIsAdded(t *testing.T) {
	s := shownStatements(t)
	onDatabases(t, func(t *testing.T, db *sql.DB) {
		ctx := t.Context()
		for _, statement := range []string{
			"CREATE TABLE invoice (id text PRIMARY KEY, state text NOT NULL)",
			"INSERT INTO invoice (id, state) VALUES ('7', 'open')", s.alter,
		} {
			_, err := db.ExecContext(ctx, statement)
			require.NoError(t, err, statement)
		}
		require.NoError(t, fencing.Changed(db.ExecContext(ctx, s.write, "7", "paid", 1)))
		_, err := db.ExecContext(ctx, s.write, "7", "paid", 0)
		require.Error(t, err)
		require.NotErrorIs(t, fencing.Changed(db.ExecContext(ctx, s.write, "8", "paid", 0)), fencing.ErrStale)
	})
}

// Of many holders that write at one time, the last write is that with the
// highest number.
func TestSQLByManyHolders(t *testing.T) {
	s := shownStatements(t)
	onDatabases(t, func(t *testing.T, db *sql.DB) {
		ctx := t.Context()
		db.SetMaxOpenConns(8)
		_, err := db.ExecContext(ctx, s.create)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for number := 1; number <= 64; number++ {
			wg.Go(func() {
				err := fencing.Changed(db.ExecContext(ctx, s.write, "7", fmt.Sprint(number), number))
				if err != nil && !fencing.Refused(err) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		var state string
		require.NoError(t, db.QueryRowContext(ctx, "SELECT state FROM invoice").Scan(&state))
		require.Equal(t, "64", state)
	})
}

// An older holder's write that waits for the transaction of a later holder is
// compared with what that commits, not with what was there when it began.
func TestSQLWaitsForTheLaterHolder(t *testing.T) {
	address := startPostgres(t)
	if address == "" {
		t.Skip("NOT COVERED: PostgreSQL, as its programs are not installed")
	}
	s, ctx := shownStatements(t), t.Context()
	db, err := place{"postgres", address}.open()
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(ctx, s.create)
	require.NoError(t, err)
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		for _, there := range []bool{false, true} {
			id := fmt.Sprint(level, there)
			if there {
				require.NoError(t, fencing.Changed(db.ExecContext(ctx, s.write, id, "open", 1)))
			}
			later, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			require.NoError(t, err)
			require.NoError(t, fencing.Changed(later.ExecContext(ctx, s.write, id, "paid", 6)))
			older, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			require.NoError(t, err)
			wrote := make(chan error, 1)
			go func() { wrote <- fencing.Changed(older.ExecContext(ctx, s.write, id, "late", 5)) }()
			require.Eventually(t, func() bool {
				var waiting int
				err := db.QueryRowContext(ctx, "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waiting)
				return err == nil && waiting > 0
			}, patience, 5*time.Millisecond)
			require.NoError(t, later.Commit())
			err = <-wrote
			if level == sql.LevelReadCommitted {
				require.ErrorIs(t, err, fencing.ErrStale, id)
			} else {
				require.ErrorContains(t, err, "could not serialize access", id)
			}
			_ = older.Rollback()
			var state string
			require.NoError(t, db.QueryRowContext(ctx, selectState, id).Scan(&state))
			require.Equal(t, "paid", state, id)
		}
	}
}

// postgresPrograms returns the folder of PostgreSQL's programs, or "".
func postgresPrograms() string {
	candidates, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian's
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			candidates = append(candidates, filepath.Dir(path))
		}
	}
	for i := len(candidates) - 1; i >= 0; i-- {
		if _, err := os.Stat(filepath.Join(candidates[i], "initdb")); err == nil {
			return candidates[i]
		}
	}
	return ""
}

// startPostgres starts a PostgreSQL of the test's own, on a unix socket, and
// ends it with the test. It returns where clients connect, or "" if there is
// no PostgreSQL. It ends with this process too: sh reads a pipe that is closed
// then.
func startPostgres(t *testing.T) (address string) {
	t.Helper()
	programs := postgresPrograms()
	if programs == "" {
		t.Log("NOT COVERED: PostgreSQL, as its programs are not installed")
		return ""
	}
	dir, err := os.MkdirTemp("", "pg") // a short path, as the socket is in it
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := &syscall.SysProcAttr{Credential: notRoot(t, dir)}
	data := filepath.Join(dir, "data")

	initdb := exec.Command(filepath.Join(programs, "initdb"), "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = as, dir
	out, err := initdb.CombinedOutput()
	require.NoError(t, err, "%s", out)

	server := exec.Command("sh", "-c", `"$@" & read _; kill -QUIT $!; wait`, "sh",
		filepath.Join(programs, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	server.SysProcAttr, server.Dir = as, dir
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer log.Close()
	server.Stdout, server.Stderr = log, log
	in, err := server.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = server.Wait()
	})

	address = fmt.Sprintf("host=%s user=test dbname=postgres sslmode=disable", dir)
	db, err := sql.Open("postgres", address)
	require.NoError(t, err)
	defer db.Close()
	for start := time.Now(); db.PingContext(t.Context()) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > patience {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("PostgreSQL does not answer: %s", said)
		}
	}
	return address
}

// notRoot gives a folder to a user other than root, as whom PostgreSQL refuses
// to run. It returns nil for the user of this process, if that is another.
func notRoot(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		found, err = user.Lookup("nobody")
	}
	require.NoError(t, err)
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, int(uid), int(gid)))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
