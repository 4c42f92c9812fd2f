package redistest_test

import (
	"cmp"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/stretchr/testify/require"
)

// timeOf returns a server's time of day.
func timeOf(t *testing.T, s *redistest.Server) time.Time {
	t.Helper()
	v, err := s.Do("TIME")
	require.NoError(t, err)
	parts := v.([]any)
	seconds, _ := strconv.ParseInt(parts[0].(string), 10, 64)
	micros, _ := strconv.ParseInt(parts[1].(string), 10, 64)
	return time.Unix(seconds, micros*1000)
}

func pttl(t *testing.T, s *redistest.Server) time.Duration {
	t.Helper()
	v, err := s.Do("PTTL", "k")
	require.NoError(t, err)
	return time.Duration(v.(int64)) * time.Millisecond
}

func setFor(t *testing.T, s *redistest.Server, ttl time.Duration) {
	t.Helper()
	_, err := s.Do("SET", "k", "v", "PX", strconv.FormatInt(ttl.Milliseconds(), 10))
	require.NoError(t, err)
}

// A key's life follows the rate of its own server's clock. The servers are
// asked from outside, and the test compares two readings of one clock, so a
// busy machine makes it slower and not wrong.
func TestClockRate(t *testing.T) {
	redistest.NoLeaks(t)
	for _, rate := range []float64{0.5, 0.99, 1, 1.009, 3} {
		t.Run(strconv.FormatFloat(rate, 'g', -1, 64), func(t *testing.T) {
			s := redistest.Servers(t, 1, redistest.OwnClock)[0]
			s.Clock().SetRate(rate)
			setFor(t, s, time.Minute)
			// Both clocks are read within uncertain at the start, and within a
			// longer time at the end.
			opened := time.Now()
			before := pttl(t, s)
			begun := timeOf(t, s)
			start := time.Now()
			uncertain := start.Sub(opened)
			time.Sleep(600 * time.Millisecond)
			closing := time.Now()
			ended := timeOf(t, s)
			after := pttl(t, s)
			more := time.Since(closing)
			real := closing.Sub(start)
			passed := ended.Sub(begun)
			bound := float64(uncertain+more)*max(1, rate) + float64(5*time.Millisecond)
			require.InDelta(t, float64(real)*rate, float64(passed), bound, "the time of day")
			require.InDelta(t, float64(passed), float64(before-after), bound, "the life of a key")
		})
	}
}

// A step changes only the time of day, and all of it at once: keys whose time
// has come expire, and after a step back keys live longer.
func TestClockJump(t *testing.T) {
	redistest.NoLeaks(t)
	servers := redistest.Servers(t, 2, redistest.OwnClock)
	s := servers[0]
	setFor(t, s, time.Minute)
	s.Clock().Jump(-20 * time.Second)
	require.InDelta(t, 80, pttl(t, s).Seconds(), 8)
	require.InDelta(t, -20, s.Clock().Ahead().Seconds(), 0.1)
	s.Clock().Jump(70 * time.Second)
	require.InDelta(t, 10, pttl(t, s).Seconds(), 8)
	s.Clock().Jump(11 * time.Second)
	require.EqualValues(t, -2*time.Millisecond, pttl(t, s), "expired")
	require.InDelta(t, 61, s.Clock().Ahead().Seconds(), 0.1)
	at := timeOf(t, s)
	require.InDelta(t, 61, time.Until(at).Seconds(), 20)
	at = timeOf(t, servers[1])
	require.InDelta(t, 0, time.Until(at).Seconds(), 20, "another server's clock")

	require.NoError(t, s.Restart())
	at = timeOf(t, s)
	require.InDelta(t, 61, time.Until(at).Seconds(), 30, "a machine's clock outlives its processes")
}

// However often the rate changes, a clock never goes back: each reading is at
// least the previous one. The rate changes more often than in any other test,
// so that readers run into a change.
func TestClockNeverTurnsBackByItself(t *testing.T) {
	redistest.NoLeaks(t)
	s := redistest.Servers(t, 1, redistest.OwnClock)[0]
	hammer := filepath.Join(t.TempDir(), "hammer")
	source := filepath.Join("..", "..", "testdata", "clockshim", "hammer.c")
	out, err := exec.Command(cmp.Or(os.Getenv("CC"), "cc"), "-O2", "-o", hammer, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command(hammer, "2")
	cmd.Env = s.Clock().Environ()
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, err = cmd.Output()
	}()
	random := rand.New(rand.NewPCG(1, 2))
	changes := 0
	for running := true; running; changes++ {
		s.Clock().SetRate(0.2 + 2*random.Float64())
		select {
		case <-done:
			running = false
		default:
		}
	}
	require.NoError(t, err, "%s", out)
	t.Logf("%d changes of the rate: %s", changes, out)
	require.Greater(t, changes, 10)
	asked := time.Now()
	at := timeOf(t, s)
	ahead, until := s.Clock().Ahead(), time.Until(at)
	require.InDelta(t, float64(ahead), float64(until), 4*float64(time.Since(asked)+time.Millisecond))
}

// A library that cannot read its rules ends the server and says why. Otherwise
// all tests of clocks would pass with the machine's own.
func TestClockRefusesToRunWithoutRules(t *testing.T) {
	redistest.Require(t)
	s := redistest.Servers(t, 1, redistest.OwnClock)[0]
	require.NoError(t, s.Kill())
	require.NoError(t, os.Truncate(s.Clock().File(), 0))
	err := s.Restart()
	require.ErrorContains(t, err, "clockshim")
	require.False(t, strings.Contains(err.Error(), "does not answer"))
}
