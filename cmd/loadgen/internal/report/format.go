package report

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// unknown replaces a missing figure.
const unknown = "–"

// latency formats three digits and a fitting unit: "123 µs", "1.23 ms", "12.3
// s".
func latency(d time.Duration) string {
	x, unit := float64(d), "ns"
	for _, next := range []string{"µs", "ms", "s"} {
		if math.Abs(x) < 999.5 {
			break
		}
		x, unit = x/1000, next
	}
	return digits(x) + " " + unit
}

// known formats a latency, of which zero means that it was not measured.
func known(d time.Duration) string {
	if d <= 0 {
		return unknown
	}
	return latency(d)
}

// digits formats at least three significant digits, with separated thousands:
// "0.0123", "1.23", "1,235".
func digits(x float64) string {
	abs := math.Abs(x)
	switch {
	case !finite(x):
		return unknown
	case abs == 0:
		return "0"
	case abs >= 99.95:
		return thousands(x)
	case abs >= 9.995:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case abs >= 0.9995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case abs >= 0.001:
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	return strconv.FormatFloat(x, 'e', 1, 64)
}

// thousands formats the nearest whole number, in groups of three.
func thousands(x float64) string {
	if !finite(x) {
		return unknown
	}
	s := strconv.FormatFloat(math.Round(math.Abs(x)), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if x < 0 && s != "0" {
		s = "−" + s
	}
	return s
}

func whole(n int64) string { return thousands(float64(n)) }

// seconds formats a time on a run's axis, or its length: "2.5 s".
func seconds(d time.Duration) string {
	return strconv.FormatFloat(math.Round(d.Seconds()*100)/100, 'f', -1, 64) + " s"
}

// count formats a number with the right plural: "1 run", "2 runs".
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%s %s", whole(int64(n)), thing)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// clip makes external text fit to be shown: valid, without control characters,
// and with at most that many characters.
func clip(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// A num is a figure for the charts. One that is not finite becomes null, a gap:
// JSON has no other form for it.
type num float64

// MarshalJSON keeps six digits, more than is visible.
func (x num) MarshalJSON() ([]byte, error) {
	if !finite(float64(x)) {
		return []byte("null"), nil
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', 6, 64), 64)
	if err != nil {
		return nil, err
	}
	return json.Marshal(short)
}

// gap returns a missing figure.
func gap() num { return num(math.NaN()) }

// micros converts to the charts' unit of latency. Zero is a gap: nothing was
// measured.
func micros(d time.Duration) num {
	if d <= 0 {
		return gap()
	}
	return num(float64(d) / float64(time.Microsecond))
}
