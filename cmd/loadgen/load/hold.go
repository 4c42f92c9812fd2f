package load

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// hold is how long a lock is held: a fixed time, or a random time with this
// mean.
type hold struct {
	mean   time.Duration
	random bool
}

// UnmarshalText reads "5ms" or "exp:5ms".
func (h *hold) UnmarshalText(text []byte) error {
	s, random := strings.CutPrefix(string(text), "exp:")
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return errors.New(`want a time, as "5ms", or a random time with this mean, as "exp:5ms"`)
	}
	*h = hold{d, random}
	return nil
}

// String returns the form that UnmarshalText reads.
func (h hold) String() string {
	if h.random {
		return "exp:" + h.mean.String()
	}
	return h.mean.String()
}

// next returns the time to hold the next lock. Random times are distributed
// exponentially, like the lengths of many kinds of work: most are short, a few
// are long.
func (h hold) next(random *rand.Rand) time.Duration {
	if !h.random {
		return h.mean
	}
	return time.Duration(random.ExpFloat64() * float64(h.mean))
}
