package report

import "time"

// chartData is what charts.js draws, as JSON in the page. Times are in seconds,
// latencies in microseconds, rates per second. Unknown values are null, not
// zero: the line has a gap there.
type chartData struct {
	Runs []runData `json:"runs"`
	End  num       `json:"end"` // of the axis of time
}

// runData has lists with one figure per point of Time. A run from an earlier
// result has only curves.
type runData struct {
	Name     string `json:"name"`
	Color    int    `json:"color"`
	Dash     int    `json:"dash"`
	Faint    bool   `json:"faint,omitempty"`
	Time     []num  `json:"time"` // the middle of each interval
	Rate     []num  `json:"rate"`
	P50      []num  `json:"p50"`
	P99      []num  `json:"p99"`
	Max      []num  `json:"max"`
	Outcomes []line `json:"outcomes"`
	Nodes    []line `json:"nodes"`
	Faults   []band `json:"faults"`
	Acquire  curve  `json:"acquire"`
	Release  curve  `json:"release"`
}

// A line uses its run's Time.
type line struct {
	Name string `json:"name"`
	Y    []num  `json:"y"`
}

// A band is a fault. From and To may be equal, or beyond the end of the axis.
type band struct {
	From num    `json:"from"`
	To   num    `json:"to"`
	Name string `json:"name"`
}

// newChartData keeps one entry per run, in order: the page's switches and the
// charts of single runs refer to runs by index.
func newChartData(runs []Run, styles []style) chartData {
	d := chartData{Runs: []runData{}} // a list even if empty, for the script
	var end time.Duration
	for i, r := range runs {
		c := runData{Name: styles[i].Name, Color: styles[i].Color, Dash: styles[i].Dash, Faint: styles[i].Faint,
			Acquire: newCurve(r.Acquire, max(r.Pairs, r.Outcomes["granted"])), Release: newCurve(r.Release, r.Pairs)}
		series := thin(r.Series, mostPoints)
		for _, s := range series {
			c.Time = append(c.Time, axisTime(s))
			c.Rate = append(c.Rate, rate(s.Pairs, s.Length))
			c.P50, c.P99, c.Max = append(c.P50, micros(s.P50)), append(c.P99, micros(s.P99)), append(c.Max, micros(s.Max))
			end = max(end, s.At)
		}
		for _, name := range outcomeNames(outcomesOf(series)...) {
			c.Outcomes = append(c.Outcomes, newLine(outcomeTitle(name), series,
				func(s Sample) num { return rate(s.Outcomes[name], s.Length) }))
		}
		for n := range nodesIn(series) {
			c.Nodes = append(c.Nodes, newLine(nodeName(r, n), series,
				func(s Sample) num { return micros(s.replyTime(n)) }))
		}
		for _, f := range r.Faults {
			c.Faults = append(c.Faults, band{num(f.At.Seconds()), num(f.until().Seconds()), faultName(f)})
		}
		d.Runs = append(d.Runs, c)
	}
	d.End = num(end.Seconds())
	return d
}

func newLine(name string, series []Sample, y func(Sample) num) line {
	l := line{Name: name}
	for _, s := range series {
		l.Y = append(l.Y, y(s))
	}
	return l
}
