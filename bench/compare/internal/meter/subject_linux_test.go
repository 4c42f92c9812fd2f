package meter

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
)

// jobs are what a subject can be.
var jobs = map[string]func(){"burn": burner, "calls": caller, "pairs": locker}

// answer does the work for each line that comes, until no more come.
func answer(work func() int64) {
	lines := bufio.NewScanner(os.Stdin)
	for first := true; lines.Scan(); first = false {
		n := int64(0)
		if !first {
			n = work()
		}
		fmt.Println(n)
	}
}

const burnTime = 50 * time.Millisecond

// burn uses so much processor time on the calling thread.
func burn(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for end := threadCPU() + d; threadCPU() < end; {
	}
}

func threadCPU() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(1, &usage) // RUSAGE_THREAD
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// onThreads runs work on so many threads of its own, which end with it.
func onThreads(n int, work func()) {
	var working sync.WaitGroup
	for range n {
		working.Go(func() {
			runtime.LockOSThread() // and not unlocked: the thread ends with its goroutine
			work()
		})
	}
	working.Wait()
}

func burner() {
	answer(func() int64 {
		before := SelfCPU()
		onThreads(3, func() { burn(burnTime) })
		return int64(SelfCPU() - before)
	})
}

const (
	callThreads    = 3
	callsPerThread = 1000
)

// caller makes a known number of calls of one kind with a name and of one without, on threads that are new each time. As raw
// calls they give the scheduler no reason for further ones.
func caller() {
	null, err := syscall.Open(os.DevNull, syscall.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	answer(func() int64 {
		onThreads(callThreads, func() {
			for range callsPerThread {
				syscall.RawSyscall(syscall.SYS_WRITE, uintptr(null), 0, 0)
				syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
			}
		})
		return 0
	})
}

// locker acquires and releases locks for as long as it lives, and answers how many so far. Its arguments are the number of
// callers and the masters.
func locker() {
	callers, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	client, err := redlock.Open(context.Background(), os.Args[2:]...)
	if err != nil {
		panic(err)
	}
	var pairs atomic.Int64
	for i := range callers {
		go func() {
			resource, ctx := "r"+strconv.Itoa(i), context.Background()
			for {
				if lock, err := client.TryAcquire(ctx, resource, 10*time.Second); err == nil && lock.Release(ctx) == nil {
					pairs.Add(1)
				}
			}
		}()
	}
	answer(pairs.Load)
}

// BenchmarkDisturbance says how much of its throughput redlock keeps while its system calls are counted: all together, as n of
// CountSyscalls is, and by name. Windows with and without counting take turns, so that what else the machine does hits both.
func BenchmarkDisturbance(b *testing.B) {
	urls := redistest.URLs(redistest.Servers(b, 5, redistest.OverTCP))
	for _, callers := range []int{1, 128} {
		s := startSubject(b, "pairs", append([]string{strconv.Itoa(callers)}, urls...)...)
		for kind, names := range map[string][]string{"sum": nil, "names": named} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, kind), func(b *testing.B) { benchmarkDisturbance(b, s, names) })
		}
		s.end()
	}
}

func benchmarkDisturbance(b *testing.B, s *subject, names []string) {
	const window = 300 * time.Millisecond
	var plain, disturbed, calls int64
	for b.Loop() {
		plain += s.pairsIn(window)
		c, err := newCounters(s.pid(), names)
		require.NoError(b, err)
		require.NoError(b, c.switchAll(unix.PERF_EVENT_IOC_ENABLE))
		disturbed += s.pairsIn(window)
		require.NoError(b, c.switchAll(unix.PERF_EVENT_IOC_DISABLE))
		sums, err := c.read()
		require.NoError(b, err)
		calls += sums[all]
		c.close()
	}
	b.ReportMetric(float64(disturbed)/float64(plain), "kept")
	b.ReportMetric(float64(calls)/float64(disturbed), "calls/pair")
	b.ReportMetric(0, "ns/op")
}

// pairsIn is how many pairs the subject makes in a window.
func (s *subject) pairsIn(window time.Duration) int64 {
	s.t.Helper()
	begin := s.tell("")
	time.Sleep(window)
	return s.tell("") - begin
}
