//go:build unix

package adapters

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"
)

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
