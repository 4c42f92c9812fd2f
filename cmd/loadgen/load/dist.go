package load

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// dist is how callers choose among shared resources: uniformly, or by Zipf's
// law, with most callers after a few resources.
type dist struct{ exponent float64 } // 0 is uniform

// UnmarshalText reads "uniform" or "zipf:1.1".
func (d *dist) UnmarshalText(text []byte) error {
	if string(text) == "uniform" {
		*d = dist{}
		return nil
	}
	digits, zipf := strings.CutPrefix(string(text), "zipf:")
	s, err := strconv.ParseFloat(digits, 64)
	// The generator needs an exponent above 1. Far above 1 only one resource is
	// left, and --keys 1 says that more clearly.
	if !zipf || err != nil || math.IsNaN(s) || s <= 1 || s > 100 {
		return errors.New(`want "uniform", or "zipf:1.1" with an exponent above 1 and at most 100`)
	}
	*d = dist{s}
	return nil
}

// String returns the form that UnmarshalText reads.
func (d dist) String() string {
	if d.exponent == 0 {
		return "uniform"
	}
	return "zipf:" + strconv.FormatFloat(d.exponent, 'g', -1, 64)
}

// chooser returns a function that chooses among n resources; Zipf favors the
// first. The function does not allocate.
func (d dist) chooser(random *rand.Rand, n int) func() int {
	if d.exponent == 0 {
		return func() int { return random.IntN(n) }
	}
	z := rand.NewZipf(random, d.exponent, 1, uint64(n-1))
	return func() int { return int(z.Uint64()) }
}
