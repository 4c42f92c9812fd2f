package faults

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const kib, mibi = float64(1 << 10), float64(1 << 20)

// A leak is found, and noise is not (R28). Each case is readings every two
// seconds.
func TestTrend_R28(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(part float64) float64 { return 1 + part*(2*random.Float64()-1) }
	cases := []struct {
		name  string
		lasts time.Duration
		floor float64
		value func(seconds float64) float64
		grows bool
	}{
		{"level", 10 * time.Minute, 4 * mibi, func(float64) float64 { return 8 * mibi }, false},
		{"noise of a third", 10 * time.Minute, mibi, func(float64) float64 { return 8 * mibi * noise(0.3) }, false},
		{"waves", 10 * time.Minute, mibi, func(s float64) float64 { return 8*mibi + 3*mibi*math.Sin(s/20) }, false},
		{"a warm-up that ends", 10 * time.Minute, mibi, func(s float64) float64 { return 8 * mibi * min(1, s/200) }, false},
		{"one wild sample in ten", 10 * time.Minute, mibi, func(s float64) float64 {
			if int(s)%20 == 0 {
				return 80 * mibi
			}
			return 8 * mibi
		}, false},
		{"growth below the floor", 8 * time.Hour, 4 * mibi, func(s float64) float64 { return 8*mibi + s/3600*mibi/2 }, false},
		{"falling", 10 * time.Minute, mibi, func(s float64) float64 { return 80*mibi - s*mibi/10 }, false},
		{"too few readings", 20 * time.Second, mibi, func(s float64) float64 { return s * mibi }, false},
		{"1 KiB for each of 1,000 operations a second", time.Minute, 4 * mibi, func(s float64) float64 { return (8*mibi + s*1000*kib) * noise(0.1) }, true},
		{"1 KiB for each of 100 operations a second", 10 * time.Minute, 4 * mibi, func(s float64) float64 { return (8*mibi + s*100*kib) * noise(0.3) }, true},
		{"one goroutine in ten seconds", 10 * time.Minute, 20, func(s float64) float64 { return 100*noise(0.05) + s/10 }, true},
		{"one descriptor a minute", 8 * time.Hour, 8, func(s float64) float64 { return 40*noise(0.1) + s/60 }, true},
		{"steps", 10 * time.Minute, mibi, func(s float64) float64 { return 8*mibi + math.Floor(s/60)*mibi }, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var readings []reading
			for at := time.Duration(0); at < c.lasts; at += 2 * time.Second {
				readings = append(readings, reading{at, c.value(at.Seconds())})
			}
			trend := trendOf(readings, c.floor)
			assert.Equal(t, c.grows, trend.Grows, "%+v", trend)
			assert.LessOrEqual(t, trend.Surely, trend.PerHour)
		})
	}
	assert.Zero(t, trendOf(nil, 1))
}

// Noise alone is taken for a leak less often than once in a hundred runs.
func TestTrendOfNoise_R28(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	wrong := 0
	for range 300 {
		var readings []reading
		level := 8 * mibi
		for at := time.Duration(0); at < 2*time.Minute; at += 2 * time.Second {
			readings = append(readings, reading{at, level * math.Exp(random.NormFloat64()/3)})
		}
		if trendOf(readings, 0).Grows {
			wrong++
		}
	}
	assert.Less(t, wrong, 3)
}
