package main

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// A signal that arrives right after the grant, when the wait is over and the
// command has not started, releases the lock. Otherwise the lock would stay
// until its TTL ends, without a command under it.
func TestASignalRightAfterTheGrantGivesTheLockBack_R7(t *testing.T) {
	minute := time.Minute
	for name, w := range map[string]waiting{
		"without a wait":      {NoWait: true},
		"with a bounded wait": {Wait: &minute},
		"with an endless one": {},
	} {
		for _, held := range []bool{false, true} {
			if held && w.NoWait {
				continue // the lock is never granted
			}
			commands := map[string]func(*process, *deployment, *redlock.Client) error{
				"run": func(p *process, d *deployment, client *redlock.Client) error {
					_, _, err := (&runCommand{waiting: w, lifetime: lifetime{minute}, Resource: "job"}).hold(p, d, client)
					return err
				},
				"acquire": func(p *process, d *deployment, client *redlock.Client) error {
					_, _, err := (&acquireCommand{waiting: w, lifetime: lifetime{minute}, Resource: "job"}).take(p, d, client)
					return err
				},
			}
			for command, take := range commands {
				title := command + " " + name
				if held {
					title += ", where another client had the lock"
				}
				t.Run(title, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { signalAfterGrant(t, held, take) })
				})
			}
		}
	}
}

// signalAfterGrant sends a signal at the moment of the grant, and requires that
// no key is left.
func signalAfterGrant(t *testing.T, held bool, take func(*process, *deployment, *redlock.Client) error) {
	d := redlocktest.New(t, 3)
	if held {
		lock, err := d.Client(t, forgetful).Acquire(t.Context(), "job", time.Hour)
		require.NoError(t, err)
		time.AfterFunc(5*time.Second, func() { _ = lock.Release(context.Background()) })
	}
	p := &process{signals: make(chan os.Signal)}
	granted := 0
	client := d.Client(t, func(c *redlock.Config) {
		forgetful(c)
		c.Tracer = &redlock.Tracer{AttemptDone: func(_ context.Context, info redlock.CallInfo) {
			if info.Err == nil {
				granted++
				p.signals <- syscall.SIGTERM // returns when the wait has taken it
			}
		}}
	})
	err := take(p, &deployment{Timeout: time.Second}, client)
	require.Equal(t, signalCode(syscall.SIGTERM), exitCode(err), "%v", err)
	require.Equal(t, 1, granted)
	synctest.Wait()
	time.Sleep(time.Second) // far less than the TTL
	for _, node := range d.Nodes() {
		require.Empty(t, node.Keys(), "R7")
	}
}

// A signal that comes just before what was waited for is not lost.
func TestASignalThatComesWithTheResult(t *testing.T) {
	p := &process{signals: make(chan os.Signal)}
	text, err := unlessInterrupted(p, func() (string, error) {
		p.signals <- syscall.SIGTERM // returns when the wait has taken it
		return "token", nil
	})
	require.Equal(t, signalCode(syscall.SIGTERM), exitCode(err))
	require.Empty(t, text)
	text, err = unlessInterrupted(p, func() (string, error) { return "token", nil })
	require.NoError(t, err)
	require.Equal(t, "token", text)
}
