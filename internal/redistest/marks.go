package redistest

import (
	"os"
	"testing"
)

// A test of time or throughput, and one that takes long, says so in its first
// line, so that "make test" runs it later or leaves it to "make check".
// testdata/marked.sh lists them by that line. Without TestsVariable, as in
// "go test ./redlock", they run like any other.

// TestsVariable of the environment leaves out tests that say that they run alone
// or long, if it is "others".
const TestsVariable = "REDMUX_TESTS"

// Alone marks a test of time or throughput: nothing may run beside it.
func Alone(tb testing.TB) {
	tb.Helper()
	leave(tb, "it runs alone")
}

// Long marks a test that judges the proof rather than the library, and takes
// long: only "make check" runs it.
func Long(tb testing.TB) {
	tb.Helper()
	leave(tb, "it takes long")
}

// Few returns the first with -short, as under the race detector in "make race",
// and the second otherwise: what the detector looks for happens in few rounds,
// and it slows each down.
func Few[T any](few, all T) T {
	if testing.Short() {
		return few
	}
	return all
}

func leave(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv(TestsVariable) == "others" {
		tb.Skipf("skipped: %s, and %s=others leaves that to another run", why, TestsVariable)
	}
}
