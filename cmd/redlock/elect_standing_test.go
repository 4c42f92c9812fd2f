package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
)

// fenced is for clients of candidates.
func fenced(c *redlock.Config) { c.Fenced, c.Owner = true, "web-1" }

// asked returns what a standing answers.
func asked(s *standing, method, path string) *http.Response {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Result()
}

// /leader says yes as long as renewals come, and no longer than the command
// would be left alone without them: then there is validity left.
func TestLeaderSaysNoBeforeTheEndOfTheValidity_R15(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const least = 2 * time.Second
		d := redlocktest.New(t, 3)
		c := d.Client(t, fenced)
		hold, err := c.Lock("billing").TryHold(t.Context(), redlock.HoldOptions{TTL: 10 * time.Second})
		require.NoError(t, err)
		s := newStanding(c, "billing", "web-1", least, t.Context())
		says := func() int { return asked(s, "GET", "/leader").StatusCode }
		require.Equal(t, 503, says(), "no command works yet")
		s.begins(hold)
		for range 1000 {
			require.Equal(t, 200, says())
			time.Sleep(50 * time.Millisecond)
		}
		for _, n := range d.Nodes() {
			n.Pause()
		}
		for said := 200; said == 200; time.Sleep(time.Millisecond) {
			left := hold.Validity()
			said = says()
			require.Equal(t, left > least, said == 200, left)
		}
		require.Positive(t, hold.Validity())
		for _, n := range d.Nodes() {
			n.Continue()
		}
	})
}

// Nor does it say yes when the command is being stopped, a signal has come or
// the lock is lost, whatever the validity.
func TestLeaderSaysNoAtTheEndOfATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		c := d.Client(t, fenced)
		hold, err := c.Lock("billing").TryHold(t.Context(), redlock.HoldOptions{TTL: 10 * time.Second})
		require.NoError(t, err)
		signaled, signal := context.WithCancel(t.Context())
		s := newStanding(c, "billing", "web-1", time.Second, signaled)
		says := func() int { return asked(s, "HEAD", "/leader").StatusCode }
		s.begins(hold)
		require.Equal(t, 200, says())
		s.ends()
		require.Equal(t, 503, says())
		s.begins(hold)
		signal()
		require.Equal(t, 503, says())

		s = newStanding(c, "billing", "web-1", time.Second, t.Context())
		s.begins(hold)
		require.Equal(t, 200, says())
		lock := hold.Current()
		require.NoError(t, lock.Release(t.Context())) // behind the hold's back
		for hold.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		require.Positive(t, lock.Validity())
		require.Equal(t, 503, says())
	})
}

// The answer names the leader and counts masters, and shows nothing secret.
func TestStandingOfACandidate_R27(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3, redlocktest.Password("opensesame"))
		c := d.Client(t, fenced)
		s := newStanding(c, "billing", "web-2", time.Second, t.Context())
		look := func(path string, status int) (a standingAnswer) {
			r := asked(s, "GET", path)
			require.Equal(t, status, r.StatusCode)
			require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
			text, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &a), "%s", text)
			for _, secret := range []string{"opensesame", "billing", "node", "redis"} {
				require.NotContains(t, strings.ReplaceAll(string(text), `"nodes`, ""), secret)
			}
			return a
		}
		require.EqualValues(t, "unclear", look("/", 200).Leader.State, "nothing is known yet")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.watch(ctx)
		synctest.Wait()
		require.EqualValues(t, "free", look("/leader", 503).Leader.State)

		hold, err := c.Lock("billing").TryHold(t.Context(), redlock.HoldOptions{TTL: 10 * time.Second})
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		a := look("/leader", 503)
		require.Equal(t, leaderAnswer{"held", "web-1", hold.Current().Fence()}, a.Leader)
		require.Equal(t, []any{false, "web-2", uint64(0)}, []any{a.Leads, a.Owner, a.Term})
		a = look("/healthz", 200)
		require.Equal(t, []int{3, 3, 2}, []int{a.Nodes, a.NodesUp, a.Quorum})
		s.begins(hold)
		a = look("/leader", 200)
		require.Equal(t, leaderAnswer{"held", "web-2", a.Term}, a.Leader)
		require.Greater(t, *a.ValidityMS, 6000.0)

		d.Node(0).Stop()
		time.Sleep(time.Second)
		require.Equal(t, 2, look("/healthz", 200).NodesUp)
		d.Node(1).Stop()
		time.Sleep(time.Second)
		require.Equal(t, 1, look("/healthz", 503).NodesUp)
		d.Node(1).RestartEmpty()
		time.Sleep(10 * time.Second)
		require.Equal(t, 2, look("/healthz", 200).NodesUp, "it is in quarantine, so waiting helps")
	})
}

func TestStandingRefusesWhatItDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStanding(redlocktest.New(t, 3).Client(t, fenced), "billing", "web-1", time.Second, t.Context())
		require.Equal(t, 405, asked(s, "POST", "/leader").StatusCode)
		for _, path := range []string{"/Leader", "/leader/", "/metrics", "//"} {
			require.Equal(t, 404, asked(s, "GET", path).StatusCode, path)
		}
	})
}
