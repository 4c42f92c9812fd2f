package machines

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redmux/redmux/internal/pure"
	"github.com/stretchr/testify/require"
)

// time.Time has the layout that timeOf expects: both readings are returned
// unchanged and independently.
func TestTimeOf(t *testing.T) {
	start := timeOf(5*time.Second, time.Hour)
	for _, c := range []struct{ mono, wall time.Duration }{
		{0, 0},
		{time.Second, time.Second},
		{time.Nanosecond, 3 * time.Second},
		{20 * time.Second, -time.Hour},
		{-time.Second, 90*time.Minute + 7},
	} {
		now := timeOf(5*time.Second+c.mono, time.Hour+c.wall)
		require.Equal(t, c.mono, now.Sub(start))
		require.Equal(t, c.wall, now.Round(0).Sub(start.Round(0)))
		require.Equal(t, max(c.mono, c.wall), pure.Elapsed(start, now))
		require.Equal(t, min(-c.mono, -c.wall), pure.Remaining(start, now))
		later := now.Add(time.Second)
		require.Equal(t, c.mono+time.Second, later.Sub(start))
		require.Equal(t, c.wall+time.Second, later.Round(0).Sub(start.Round(0)))
	}
}

func TestClock(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		c := clock{ppm: random.Int64N(2*rateMost) - rateMost, base: time.Duration(random.Int64N(int64(time.Hour)))}
		now := time.Duration(random.Int64N(int64(time.Minute)))
		before := c.at(now)
		reading := before + time.Duration(random.Int64N(int64(time.Minute)))
		when := c.when(reading, now)
		require.GreaterOrEqual(t, c.at(when), reading)
		require.Less(t, c.at(when-2), reading, "it is the first time at which it reads so much")
		c.step(-time.Second, now)
		require.Equal(t, before-time.Second, c.at(now))
		c.stop(now)
		require.Equal(t, before-time.Second, c.at(now+time.Hour))
		c.goOn(now + time.Hour)
		require.InDelta(t, before, c.at(now+time.Hour+time.Second), float64(6*ms))
	}
}
