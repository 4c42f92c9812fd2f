package main

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/redmux/redmux/cmd/internal/commandline"
)

// durationMapper reads durations on the command line and in the environment. A
// number without a unit counts seconds, as with sleep(1), timeout(1) and
// flock(1).
type durationMapper struct{}

// Decode is called by package kong.
func (durationMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := commandline.Text(ctx, "duration")
	if err != nil {
		return err
	}
	d, err := parseDuration(text)
	if err != nil {
		return err
	}
	target.SetInt(int64(d))
	return nil
}

func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		ns := seconds * float64(time.Second)
		if !(math.Abs(ns) < math.MaxInt64) { // also refuses NaN
			return 0, fmt.Errorf("%q is too long for a duration", text)
		}
		return time.Duration(math.Round(ns)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write 500ms, 30s or 1h30m, or a number of seconds", text)
	}
	return d, nil
}
