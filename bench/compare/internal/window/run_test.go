package window

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/internal/redistest"
)

// TestMain lets children of this test program do their jobs.
func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

func jobFor(peer string, servers []*redistest.Server) Job {
	job := Job{
		Peer: peer, URLs: redistest.URLs(servers), Callers: 4, TTL: 10 * time.Second, Resource: peer + "-",
		Warmup: 50 * time.Millisecond, Window: 100 * time.Millisecond,
	}
	for _, s := range servers {
		job.PIDs = append(job.PIDs, s.PID())
	}
	return job
}

// Every peer has a window with consistent figures.
func TestEveryPeerHasAWindow(t *testing.T) {
	servers := redistest.Servers(t, 1, redistest.OverTCP)
	for _, p := range compare.Peers {
		t.Run(p.Name, func(t *testing.T) {
			job := jobFor(p.Name, servers)
			job.Gaps = true
			var r Result
			// Where the servers get no processor for a while, callers do not
			// come back in time.
			for try := 0; try == 0 || try < 10 && (r.Pairs == 0 || r.Waiting > 0); try++ {
				var stages []Stage
				var err error
				r, err = Run(t.Context(), job, func(s Stage, pid int) {
					assert.NotEqual(t, os.Getpid(), pid, "it is no process of its own")
					stages = append(stages, s)
				})
				require.NoError(t, err)
				require.Empty(t, r.Failure)
				assert.Equal(t, []Stage{Warm, Measuring}, stages)
			}
			assert.Positive(t, r.Pairs)
			assert.GreaterOrEqual(t, r.Elapsed, job.Window)
			assert.Positive(t, r.P50)
			assert.LessOrEqual(t, r.P50, r.P99)
			assert.LessOrEqual(t, r.P99, r.P999)
			assert.LessOrEqual(t, r.P999, r.Longest)
			assert.Positive(t, r.Gap)
			assert.LessOrEqual(t, r.Gap, r.Elapsed)
			assert.Greater(t, r.Goroutines, job.Callers)
			assert.Zero(t, r.Waiting)
			assert.True(t, r.ServersCPU != nil || r.Unknown != "", "a figure or the reason why there is none")
		})
	}
}

// A stopped master must not lengthen the window of a peer that waits for all
// masters, and such a window has no pair.
func TestAWindowEndsOnTime(t *testing.T) {
	servers := redistest.Servers(t, 3, redistest.OverTCP)
	for _, peer := range []string{compare.Redsync, "redsync-rueidis", compare.DefaultAll} {
		t.Run(peer, func(t *testing.T) { requireEndOnTime(t, jobFor(peer, servers), servers) })
	}
}

func requireEndOnTime(t *testing.T, job Job, servers []*redistest.Server) {
	job.TTL = 10 * time.Minute   // what is waited for a vote follows from it
	job.Settle = 1 * time.Second // what was under way when the master stopped is over, which a busy machine does late
	var start time.Time
	r, err := Run(t.Context(), job, func(s Stage, _ int) {
		if s == Warm {
			require.NoError(t, servers[2].Stop())
			return
		}
		start = time.Now()
	})
	took := time.Since(start)
	require.NoError(t, servers[2].Continue())
	require.NoError(t, err)
	assert.Zero(t, r.Pairs, "it waits for the stopped master")
	assert.Equal(t, job.Callers, r.Waiting)
	assert.Zero(t, r.P99)
	assert.Less(t, took, 4*time.Second, "it would wait for five, or longer")
}

// The longest time without a grant is found: for a part of the window there is
// no quorum.
func TestGapIsSeen(t *testing.T) {
	servers := redistest.Servers(t, 1, redistest.OverTCP)
	job := jobFor(compare.Ours, servers)
	job.Gaps, job.Window = true, time.Second
	var r Result
	// A busy machine may stop the server after the window.
	for try := 0; try == 0 || try < 10 && (r.Gap < 250*time.Millisecond || r.Gap >= r.Elapsed); try++ {
		var err error
		r, err = Run(t.Context(), job, func(s Stage, _ int) {
			if s == Measuring {
				require.NoError(t, servers[0].Stop())
				time.Sleep(300 * time.Millisecond)
				require.NoError(t, servers[0].Continue())
			}
		})
		require.NoError(t, err)
	}
	assert.GreaterOrEqual(t, r.Gap, 250*time.Millisecond)
	assert.Less(t, r.Gap, r.Elapsed)
}

func TestWhatCannotBeMeasuredIsSaid(t *testing.T) {
	r, err := Run(t.Context(), Job{Peer: "nobody", Callers: 1}, nil)
	require.NoError(t, err)
	assert.Contains(t, r.Failure, "nobody")
	r, err = Run(t.Context(), Job{Peer: compare.Ours, URLs: []string{"nonsense:"}, Callers: 1}, nil)
	require.NoError(t, err)
	assert.Contains(t, r.Failure, "open:")
}

func TestACancelledRunKillsItsChild(t *testing.T) {
	servers := redistest.Servers(t, 1, redistest.OverTCP)
	ctx, cancel := context.WithCancel(t.Context())
	job := jobFor(compare.Ours, servers)
	job.Window = time.Minute
	start := time.Now()
	_, err := Run(ctx, job, func(s Stage, _ int) {
		if s == Measuring {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Less(t, time.Since(start), job.Window)
}

// A child ends if its parent is gone.
func TestAnOrphanEnds(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.Command(self)
	child.Env = append(os.Environ(), childVariable+"=1")
	// Nothing listens there: the client keeps trying, and its callers get
	// errors.
	child.Stdin = strings.NewReader(`{"Peer":"redlock","URLs":["redis://127.0.0.1:1"],"Callers":1,"TTL":1000000000,"Window":600000000000}`)
	require.NoError(t, child.Start())
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, 3, exit.ExitCode())
	case <-time.After(time.Minute):
		_ = child.Process.Kill()
		t.Error("it goes on")
	}
}
