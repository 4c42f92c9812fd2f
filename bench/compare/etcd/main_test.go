//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/cmd/loadgen/load"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// TestMain lets children of this test program do their jobs.
func TestMain(m *testing.M) {
	memberMain()
	candidateMain()
	os.Exit(m.Run())
}

// What one session holds is held for another, and free afterwards.
func TestItIsALock(t *testing.T) {
	e := etcd{noFsync: true}
	defer e.close()
	for _, n := range []int{1, 3} {
		c, err := e.cluster(n)
		require.NoError(t, err)
		var both [2]*etcdLocker
		for i := range both {
			both[i], err = open(c.urls)
			require.NoError(t, err)
			defer both[i].Close(context.Background())
		}
		ctx := t.Context()
		lease, err := both[0].TryAcquire(ctx, "r", time.Minute)
		require.NoError(t, err)
		require.NotZero(t, lease.Token())
		_, err = both[1].TryAcquire(ctx, "r", time.Minute)
		require.ErrorIs(t, err, redlock.ErrHeld)
		waits := make(chan error, 1)
		go func() {
			second, err := both[1].Acquire(ctx, "r", time.Minute)
			if err == nil {
				err = second.Release(ctx)
			}
			waits <- err
		}()
		require.NoError(t, lease.Release(ctx))
		require.NoError(t, <-waits)
	}
}

// loadgen drives it beside redlock.
func TestARow(t *testing.T) {
	redistest.Require(t)
	e := etcd{noFsync: true}
	defer e.close()
	for _, row := range table()[0].Rows {
		if !strings.Contains(row.Flags, "--clients=16") {
			continue
		}
		var stdout, stderr bytes.Buffer
		args := append(strings.Fields(row.Flags), "--runs=1", "--ops=32", "--duration=30s", "--warmup=0s", "--output=csv", "-q")
		require.Zero(t, load.Run(args, &stdout, &stderr, nil, e.implementation()), &stderr)
		require.Regexp(t, `(?s)\nredlock,.*\netcd,`, stdout.String())
	}
}

func TestTakeovers(t *testing.T) {
	redistest.Require(t)
	var elections []takeovers
	// A busy machine delays renewals and hand-overs.
	for try := 0; try == 0 || try < 5 && slices.ContainsFunc(elections, wrong); try++ {
		var err error
		elections, err = takeAll(t.Context(), 1, electionTTL, true)
		require.NoError(t, err)
	}
	require.Len(t, elections, 6)
	for _, e := range elections {
		require.Len(t, e.next, 1)
		assert.False(t, wrong(e), "%v", e)
	}
}

// wrong reports whether the only takeover came late after its leader stepped
// down, or long before the TTL after its leader died.
func wrong(e takeovers) bool {
	if e.exit == "steps down" {
		return e.next[0] >= 1
	}
	return e.next[0] <= 0.5
}

func TestAMemberThatCannotStartIsReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	_, err := startCluster(1, dir, false)
	require.ErrorContains(t, err, "did not start")
}
