package meter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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
		late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
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
	atBest(t, func() error {
		own, before := SelfCPU(), used()
		burnt := time.Duration(s.tell("burn")) // by its own account, and by several threads, of which some end
		after := used()
		require.Greater(t, burnt, 2*burnTime)
		switch ours := SelfCPU() - own; {
		case (after - before - burnt).Abs() > burnTime/5:
			return fmt.Errorf("%v were burnt, and %v seen", burnt, after-before)
		case ours >= burnTime/2:
			return fmt.Errorf("what another burns is not ours: %v", ours)
		}
		return nil
	})
	atBest(t, func() error {
		before := used()
		time.Sleep(20 * time.Millisecond)
		if cost := used() - before; cost >= 5*time.Millisecond {
			return fmt.Errorf("waiting cost %v", cost)
		}
		return nil
	})
}

// atBest is content with one measurement that holds: what the runtime and the machine do beside, they do not do always.
func atBest(t *testing.T, measure func() error) {
	t.Helper()
	var err error
	for try := range 10 {
		if err = measure(); err == nil {
			return
		}
		t.Logf("again: %v", err)
		time.Sleep(time.Millisecond << try)
	}
	t.Error(err)
}

// Both ways of asking about ourselves give one answer, apart from the time between the questions.
func TestSelfCPU(t *testing.T) {
	burn(burnTime)
	atBest(t, func() error {
		before := SelfCPU()
		seen, err := ProcessCPU(os.Getpid())
		require.NoError(t, err)
		after := SelfCPU()
		require.GreaterOrEqual(t, seen, before)
		if seen > after+5*time.Millisecond {
			return fmt.Errorf("%v, and %v right after it", seen, after)
		}
		return nil
	})
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

// counted counts what the subject does when it is told to, some times. It counts from before the first time until after the
// last, however long that takes.
func counted(t *testing.T, s *subject, lines int, names []string) (sums map[string]int64) {
	t.Helper()
	c, err := newCounters(s.pid(), names)
	requireCounters(t, err)
	defer c.close()
	require.NoError(t, c.switchAll(unix.PERF_EVENT_IOC_ENABLE))
	for range lines {
		s.tell("go")
	}
	require.NoError(t, c.switchAll(unix.PERF_EVENT_IOC_DISABLE))
	sums, err = c.read()
	require.NoError(t, err)
	return sums
}

// requireCounters skips the test where system calls cannot be counted: not as root, or where the kernel lists no tracepoints,
// since it has none or nobody has mounted them. Any other error fails it.
func requireCounters(t *testing.T, err error) {
	t.Helper()
	if err != nil && (os.Geteuid() != 0 || errors.Is(err, fs.ErrNotExist)) {
		t.Skipf("skipped: system calls cannot be counted here: %v", err)
	}
	require.NoError(t, err)
}

// Every call of every thread is counted, also of those that begin and end within the window; and nothing else.
func TestCountIsExact(t *testing.T) {
	s := startSubject(t, "calls")
	before := redistest.RestingFiles()
	const calls = 2 * callThreads * callsPerThread
	sums := counted(t, s, 2, named)
	require.EqualValues(t, calls+2, sums["write"], "two answers were written, too: %v", sums)
	require.GreaterOrEqual(t, sums[all], int64(2*calls), "%v", sums)
	alone := counted(t, s, 2, nil)
	require.Len(t, alone, 1)
	// Beside what was asked for a thread makes some calls to begin and end, and the runtime some in passing.
	require.InDelta(t, 2*calls, alone[all], calls/10)

	s.tell("go") // is not counted
	require.Less(t, counted(t, s, 0, named)[all], int64(100))
	require.LessOrEqual(t, redistest.OpenFiles(), before)
}

// What is done while the counters are being put up, which takes a while, is not counted.
func TestCountersBeginTogether(t *testing.T) {
	s := startSubject(t, "calls")
	c, err := newCounters(s.pid(), named)
	requireCounters(t, err)
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
	var n int64
	var byName map[string]int64
	var err error
	// As long as it takes the subject to make so many.
	for d := 100 * time.Millisecond; err == nil && d < time.Minute; d *= 2 {
		n, byName, err = CountSyscalls(s.pid(), d)
		if n > 2*callsPerThread && byName["write"] > callsPerThread && byName["other"] > callsPerThread {
			break
		}
	}
	close(stop)
	<-stopped
	requireCounters(t, err)
	require.Greater(t, n, int64(2*callsPerThread))
	require.Greater(t, byName["write"], int64(callsPerThread), "%v", byName)
	require.Greater(t, byName["other"], int64(callsPerThread), "%v", byName)
	require.NotContains(t, byName, all)
}
