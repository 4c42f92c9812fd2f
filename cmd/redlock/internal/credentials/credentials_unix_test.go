//go:build unix

package credentials

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPasswordOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	for text, c := range map[string]struct{ want, fails string }{
		"hunter2":                        {"hunter2", ""},
		"hunter2\n":                      {"hunter2", ""},
		"hunter2\r\n":                    {"hunter2", ""},
		" hunter2 ":                      {" hunter2 ", ""},
		"{\"password\":\"x\"}\n":         {`{"password":"x"}`, ""},
		"":                               {"", "it is empty"},
		"\n":                             {"", "it is empty"},
		"hunter2\nhunter3\n":             {"", "more than one line"},
		"hunter2\x00":                    {"", "more than one line"},
		strings.Repeat("h", longest+100): {"", "more than 65536 bytes"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		cr, err := File(path)(t.Context())
		assert.Equal(t, c.want, cr.Password)
		if c.fails == "" {
			require.NoError(t, err)
			assert.WithinDuration(t, time.Now().Add(lookEvery), cr.Expires, time.Minute)
			continue
		}
		require.ErrorContains(t, err, c.fails)
		assert.NotContains(t, err.Error(), "hunter", "R27")
	}
	require.NoError(t, os.Chmod(path, 0o602))
	_, err := File(path)(t.Context())
	require.ErrorContains(t, err, "any user may write")
	for mode, exposed := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		require.NoError(t, os.Chmod(path, mode))
		assert.Equal(t, exposed, Exposed(path))
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, none := range []string{fifo, t.TempDir(), path + "x"} {
		_, err := File(none)(t.Context())
		require.Error(t, err)
	}
}

func TestOutputOfACommand(t *testing.T) {
	end := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for command, c := range map[string]struct {
		want  conn.Credentials
		fails string
	}{
		"echo hunter2":        {conn.Credentials{Password: "hunter2"}, ""},
		"printf hunter2":      {conn.Credentials{Password: "hunter2"}, ""},
		"echo hunter1; cat":   {conn.Credentials{Password: "hunter1"}, ""}, // there is nothing to read
		"echo ' hunter2'":     {conn.Credentials{Password: " hunter2"}, ""},
		"echo hunter3 1>&2":   {fails: "its output: it is empty"},
		"echo a; echo hunter": {fails: "more than one line"},
		`echo '{"username":"u","password":"hunter2","expires":"2030-01-02T03:04:05Z"}'`: {conn.Credentials{Username: "u", Password: "hunter2", Expires: end}, ""},
		`echo '{"password":"hunter2"}'`:                                 {conn.Credentials{Password: "hunter2"}, ""},
		`echo '{"password":"hunter2","expiry":"2030-01-02T03:04:05Z"}'`: {fails: "neither a password"},
		`echo '{"password":"hunter2","expires":"hunter"}'`:              {fails: "neither a password"},
		`echo '{"username":"hunter2"}'`:                                 {fails: "neither a password"},
		`echo '{"password":"hunter2"}{}'`:                               {fails: "neither a password"},
		`echo '{hunter2'`:                                               {fails: "neither a password"},
		"echo hunter2; echo hunter3 1>&2; exit 3":                       {fails: "exit status 3"},
		"kill -9 $$": {fails: "signal: killed"},
		"while :; do echo hunterhunterhunterhunterhunterhunterhunterhunter2; done": {fails: "more than 65536 bytes"},
	} {
		cr, err := Command(command)(t.Context())
		assert.Equal(t, c.want.Username+c.want.Password+c.want.Expires.String(), cr.Username+cr.Password+cr.Expires.String(), command)
		if c.fails == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.fails)
		assert.NotContains(t, err.Error(), "hunter", "R27")
	}
}

// A command that does not end is ended with all that it started, and who asks
// at the same time shares a run.
func TestACommandIsBoundedAndShared(t *testing.T) {
	dir := t.TempDir()
	begun := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	var pid []byte
	go func() { // once it has begun
		defer cancel()
		for i := 0; len(pid) == 0 && i < 2000; i++ {
			time.Sleep(10 * time.Millisecond)
			pid, _ = os.ReadFile(dir + "/pid")
		}
	}()
	_, err := Command("sleep 1000 & echo $! >" + dir + "/pid; wait")(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotEmpty(t, pid)
	assert.Less(t, time.Since(begun), 40*time.Second)
	assert.Eventually(t, func() bool {
		var n int
		_, _ = fmt.Sscan(string(pid), &n)
		state, err := os.ReadFile(fmt.Sprint("/proc/", n, "/stat"))
		return err != nil || strings.Contains(string(state), ") Z ")
	}, 20*time.Second, 10*time.Millisecond, "what it started has ended")

	ask := Command("echo x >>" + dir + "/runs; echo hunter2")
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			cr, err := ask(t.Context())
			assert.NoError(t, err)
			assert.Equal(t, "hunter2", cr.Password)
		})
	}
	all.Wait()
	runs, err := os.ReadFile(dir + "/runs")
	require.NoError(t, err)
	assert.Equal(t, "x\n", string(runs))
	time.Sleep(together)
	_, err = ask(t.Context())
	require.NoError(t, err)
	runs, _ = os.ReadFile(dir + "/runs")
	assert.Equal(t, "x\nx\n", string(runs), "later it runs again")
}
