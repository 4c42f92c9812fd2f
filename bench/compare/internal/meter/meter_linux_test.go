package meter

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets subject start this test binary as the process that is measured.
func TestMain(m *testing.M) {
	if job := os.Getenv(jobVariable); job != "" {
		jobs[job]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// subject is a process that does what it is told, a line at a time, and answers each line with one.
type subject struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	said *bufio.Reader
	end  func() // waits for its end; done with the test's
}

const jobVariable = "REDMUX_METER_SUBJECT"

func startSubject(t testing.TB, job string, args ...string) *subject {
	t.Helper()
	own, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(own, args...)
	cmd.Env = append(os.Environ(), jobVariable+"="+job)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	end := sync.OnceFunc(func() {
		in.Close()
		late := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		defer late.Stop()
		assert.NoError(t, cmd.Wait())
	})
	t.Cleanup(end)
	s := &subject{t, cmd, in, bufio.NewReader(out), end}
	s.tell("")
	return s
}

func (s *subject) pid() int { return s.cmd.Process.Pid }

// tell has the subject do its work once more, and returns the number that it answers.
func (s *subject) tell(line string) (n int64) {
	s.t.Helper()
	_, err := fmt.Fprintln(s.in, line)
	require.NoError(s.t, err)
	_, err = fmt.Fscanln(s.said, &n)
	require.NoError(s.t, err)
	return n
}

func TestProcessCPU(t *testing.T) {
	s := startSubject(t, "burn")
	used := func() time.Duration {
		d, err := ProcessCPU(s.pid())
		require.NoError(t, err)
		return d
	}
	for range 3 {
		own, before := SelfCPU(), used()
		burnt := time.Duration(s.tell("burn")) // by its own account, and by several threads, of which some end
		after := used()
		require.Greater(t, burnt, 2*burnTime)
		require.InDelta(t, burnt, after-before, float64(burnTime)/5)
		require.Less(t, SelfCPU()-own, burnTime/2, "what another burns is not ours")
	}
	before := used()
	time.Sleep(20 * time.Millisecond)
	require.Less(t, used()-before, 5*time.Millisecond, "waiting costs nothing")
}

// Both ways of asking about ourselves give one answer, apart from the time between the questions.
func TestSelfCPU(t *testing.T) {
	burn(burnTime)
	before := SelfCPU()
	seen, err := ProcessCPU(os.Getpid())
	require.NoError(t, err)
	after := SelfCPU()
	require.GreaterOrEqual(t, seen, before)
	require.LessOrEqual(t, seen-before, after-before+5*time.Millisecond)
}

func TestNoProcess(t *testing.T) {
	gone := exec.Command("/proc/self/exe", "-test.run=^$")
	require.NoError(t, gone.Run())
	for _, pid := range []int{-1, 0, gone.Process.Pid} {
		_, err := ProcessCPU(pid)
		require.Error(t, err, pid)
		_, _, err = CountSyscalls(pid, time.Millisecond)
		require.Error(t, err, pid)
	}
}

// counted counts what the subject does when it is told to, some times, in the middle of the window.
func counted(t *testing.T, s *subject, window time.Duration, lines int, names []string) (sums map[string]int64) {
	t.Helper()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		sums, err = count(s.pid(), window, names)
	}()
	for range lines {
		time.Sleep(window / 4)
		s.tell("go")
	}
	<-done
	if err != nil && os.Geteuid() != 0 {
		t.Skipf("skipped: it needs root: %v", err)
	}
	require.NoError(t, err)
	return sums
}

// Every call of every thread is counted, also of those that begin and end within the window; and nothing else.
func TestCountIsExact(t *testing.T) {
	s := startSubject(t, "calls")
	before := descriptors(t)
	const window, calls = 400 * time.Millisecond, 2 * callThreads * callsPerThread
	sums := counted(t, s, window, 2, named)
	require.EqualValues(t, calls+2, sums["write"], "two answers were written, too: %v", sums)
	require.GreaterOrEqual(t, sums[all], int64(2*calls), "%v", sums)
	alone := counted(t, s, window, 2, nil)
	require.Len(t, alone, 1)
	// Beside what was asked for a thread makes some calls to begin and end, and the runtime some in passing.
	require.InDelta(t, 2*calls, alone[all], calls/10)

	s.tell("go") // is not counted
	require.Less(t, counted(t, s, window/8, 0, named)[all], int64(100))
	require.Equal(t, before, descriptors(t))
}

// What is done while the counters are being put up, which takes a while, is not counted.
func TestCountersBeginTogether(t *testing.T) {
	s := startSubject(t, "calls")
	c, err := newCounters(s.pid(), named)
	if err != nil && os.Geteuid() != 0 {
		t.Skipf("skipped: it needs root: %v", err)
	}
	require.NoError(t, err)
	defer c.close()
	s.tell("go")
	sums, err := c.read()
	require.NoError(t, err)
	require.Empty(t, sums)
}

func TestCountSyscalls(t *testing.T) {
	s := startSubject(t, "calls")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				s.tell("go")
			}
		}
	}()
	n, byName, err := CountSyscalls(s.pid(), 100*time.Millisecond)
	close(stop)
	<-stopped
	if err != nil && os.Geteuid() != 0 {
		t.Skipf("skipped: it needs root: %v", err)
	}
	require.NoError(t, err)
	require.Greater(t, n, int64(2*callsPerThread))
	require.Greater(t, byName["write"], int64(callsPerThread), "%v", byName)
	require.Greater(t, byName["other"], int64(callsPerThread), "%v", byName)
	require.NotContains(t, byName, all)
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}
