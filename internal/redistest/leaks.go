package redistest

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// NoLeaks fails the test when, at its end, goroutines or descriptors are there
// that were not there when NoLeaks was called; it waits up to 2 s for them to go
// and prints what they are. Call it first, so that its check comes after all
// other cleanups. It is for tests outside testing/synctest (which finds leaked
// goroutines by itself) that do not run in parallel with others.
func NoLeaks(tb testing.TB) {
	tb.Helper()
	warmUp()
	goroutines, descriptors := goroutines(), descriptors()
	tb.Cleanup(func() {
		tb.Helper()
		if err := awaitNoLeaks(goroutines, descriptors, 2*time.Second); err != nil {
			tb.Error(err)
		}
	})
}

// awaitNoLeaks returns what is left after the wait.
func awaitNoLeaks(g, d map[string]string, wait time.Duration) error {
	deadline := time.Now().Add(wait)
	for {
		leaked := append(news(g, goroutines()), news(d, descriptors())...)
		if len(leaked) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redistest: %d goroutines and descriptors leaked:\n%s", len(leaked), strings.Join(leaked, "\n\n"))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// warmUp opens what the runtime opens once and keeps: its network poller.
func warmUp() {
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close()
	}
}

// goroutines maps "goroutine 12" to its stack.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := make(map[string]string)
	for stack := range bytes.SplitSeq(buf, []byte("\n\n")) {
		id, _, _ := bytes.Cut(stack, []byte(" ["))
		if !expected(string(stack)) {
			all[string(id)] = string(stack)
		}
	}
	return all
}

// expected goroutines belong to no test: ours, which starts servers, and those
// that the runtime, the testing package and os/signal keep.
func expected(stack string) bool {
	for _, f := range []string{
		"redistest.spawnLoop", "testing.(*T).Run", "testing.(*M).", "testing.tRunner.func", "testing.runFuzzing",
		"os/signal.signal_recv", "os/signal.loop", "runtime.ensureSigM", "runtime/pprof.",
	} {
		if strings.Contains(stack, f) {
			return true
		}
	}
	return false
}

// descriptors maps "descriptor 7 → socket:[123]" to itself; it is empty where
// there is no /proc.
func descriptors() map[string]string {
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	all := make(map[string]string)
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // the one through which we read the folder
		}
		text := fmt.Sprintf("descriptor %s → %s", e.Name(), target)
		all[text] = text
	}
	return all
}

// news returns what is in after and not in before, in a stable order.
func news(before, after map[string]string) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[key]; !ok {
			all = append(all, after[key])
		}
	}
	return all
}
