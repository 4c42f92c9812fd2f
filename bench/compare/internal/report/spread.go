package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Spread is a median with the least and the greatest value.
type Spread struct {
	Median, Least, Greatest float64
	Count                   int // values; 0 means that nothing is known, and the rest means nothing
}

// SpreadOf returns the spread of some values, which it sorts. Infinite ones are
// allowed.
func SpreadOf(values []float64) Spread {
	n := len(values)
	if n == 0 {
		return Spread{}
	}
	slices.Sort(values)
	median := values[n/2]
	if n%2 == 0 && values[n/2-1] != median { // two infinities have no mean
		median = (values[n/2-1] + median) / 2
	}
	return Spread{median, values[0], values[n-1], n}
}

// Known reports whether there is anything to show.
func (s Spread) Known() bool { return s.Count > 0 }

// String is "median (least–greatest)", or a dash.
func (s Spread) String() string {
	switch {
	case s.Count == 0:
		return "–"
	case s.Least == s.Greatest:
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.Median), number(s.Least), number(s.Greatest))
}

// number has about three significant digits.
func number(x float64) string {
	switch size := math.Abs(x); {
	case math.IsInf(x, 0):
		return "∞"
	case x == math.Trunc(x) && size < 1e15:
		return thousands(int64(x))
	case size >= 99.95:
		return thousands(int64(math.Round(x)))
	case size >= 9.995:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case size >= 0.0995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case size >= 0.001:
		return strconv.FormatFloat(x, 'f', 3, 64)
	}
	return "< 0.001"
}

// thousands separates groups of three digits.
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, r := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	return b.String()
}
