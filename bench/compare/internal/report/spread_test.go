package report

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSpread(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		values []float64
		want   Spread
		text   string
	}{
		{nil, Spread{}, "–"},
		{[]float64{3}, Spread{3, 3, 3, 1}, "3"},
		{[]float64{3, 1, 2}, Spread{2, 1, 3, 3}, "2 (1–3)"},
		{[]float64{4, 1, 2, 3}, Spread{2.5, 1, 4, 4}, "2.50 (1–4)"},
		{[]float64{2, 2}, Spread{2, 2, 2, 2}, "2"},
		{[]float64{inf, 2, inf}, Spread{inf, 2, inf, 3}, "∞ (2–∞)"},
		{[]float64{inf, inf}, Spread{inf, inf, inf, 2}, "∞"},
	} {
		s := SpreadOf(c.values)
		assert.Equal(t, c.want, s)
		assert.Equal(t, c.text, s.String())
		assert.Equal(t, len(c.values) > 0, s.Known())
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want string
	}{
		{0, "0"}, {0.0001, "< 0.001"}, {0.0123, "0.012"}, {0.0996, "0.10"}, {0.25, "0.25"}, {1.234, "1.23"}, {9.996, "10.0"},
		{12.34, "12.3"}, {99.96, "100"}, {1234.5, "1,235"}, {1234567.2, "1,234,567"}, {5, "5"}, {-3, "-3"}, {-1234, "-1,234"},
		{math.Inf(1), "∞"},
	} {
		assert.Equal(t, c.want, number(c.x), "%v", c.x)
	}
}
