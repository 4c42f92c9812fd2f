package report

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// unknown stands where there is no figure.
const unknown = "–"

// latency has three digits and the unit that fits: "123 µs", "1.23 ms", "12.3 s".
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

// known is the latency where zero means that nobody measured one.
func known(d time.Duration) string {
	if d <= 0 {
		return unknown
	}
	return latency(d)
}

// digits has at least three significant digits, and thousands apart: "0.0123",
// "1.23", "1,235".
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

// thousands is the whole number nearest to x, in groups of three.
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

// seconds is a time on a run's axis, or its length: "2.5 s".
func seconds(d time.Duration) string {
	return strconv.FormatFloat(math.Round(d.Seconds()*100)/100, 'f', -1, 64) + " s"
}

// count has the plural that people expect: "1 run", "2 runs".
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%s %s", whole(int64(n)), thing)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// clip makes text from elsewhere fit to be shown: valid, without control
// characters, of at most so many characters.
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

// A num is a figure for the charts; one that is not finite becomes null, a gap.
// JSON has no other way to say it.
type num float64

// MarshalJSON keeps six digits, more than can be seen.
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

// gap is the figure that is not there.
func gap() num { return num(math.NaN()) }

// micros are the charts' unit of latency. Zero is a gap: nothing was measured.
func micros(d time.Duration) num {
	if d <= 0 {
		return gap()
	}
	return num(float64(d) / float64(time.Microsecond))
}
