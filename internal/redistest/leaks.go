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

// NoLeaks fails the test if at its end there are goroutines or descriptors that
// did not exist when NoLeaks was called, and prints them. It first waits two
// seconds for them to end, and longer on a busy machine. Call it first, so that
// its check comes after all other cleanups. It is for tests outside
// testing/synctest (which finds leaked goroutines by itself) that do not run in
// parallel with others.
func NoLeaks(tb testing.TB) {
	tb.Helper()
	warmUp()
	goroutines, descriptors := goroutines(), descriptors()
	tb.Cleanup(func() {
		tb.Helper()
		if err := awaitNoLeaks(goroutines, descriptors, leaksLooks); err != nil {
			tb.Error(err)
		}
	})
}

const (
	// leaksLook is the time between two checks, and leaksLooks their number,
	// for two seconds together. Checks are counted because on a busy machine
	// they take longer, as the goroutines do that are about to end.
	leaksLook  = 5 * time.Millisecond
	leaksLooks = int(2 * time.Second / leaksLook)
	// leaksMost bounds all checks together. It is less than five seconds, the
	// program's timeout of dials, exchanges and probes: a goroutine that
	// outlives a Close until such a timer fires is a leak. Pauses between
	// checks that were longer than intended are not counted: the machine was
	// busy.
	leaksMost = 4500 * time.Millisecond
)

// awaitNoLeaks checks up to that many times, and returns an error with what is
// left.
func awaitNoLeaks(g, d map[string]string, looks int) error {
	deadline := time.Now().Add(leaksMost)
	for {
		leaked := append(news(g, goroutines()), news(d, descriptors())...)
		if len(leaked) == 0 {
			return nil
		}
		if looks--; looks <= 0 || time.Now().After(deadline) {
			return fmt.Errorf("redistest: %d goroutines and descriptors leaked:\n%s", len(leaked), strings.Join(leaked, "\n\n"))
		}
		paused := time.Now()
		time.Sleep(leaksLook)
		deadline = deadline.Add(time.Since(paused) - leaksLook)
	}
}

// warmUp opens what is opened once and kept: the runtime's network poller, and
// the mark of this process's block of ports.
func warmUp() {
	claimBlock()
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

// expected reports whether a goroutine belongs to no test: the one that starts
// servers, and those of the runtime, package testing and os/signal.
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

// descriptors maps "descriptor 7 → socket:[123]" to itself. It is empty if
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

// news returns the entries of after that are not in before, in a stable order.
func news(before, after map[string]string) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[key]; !ok {
			all = append(all, after[key])
		}
	}
	return all
}
