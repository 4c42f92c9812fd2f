package report

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"math"
	"text/template"

	"github.com/redmux/redmux/bench/compare"
)

//go:embed chart.svg.tmpl
var chartTemplate string

// The chart's measures, in pixels of the picture's own.
const (
	chartWidth, chartHeight = 960, 520
	plotLeft, plotRight     = 70, 940
	plotTop, plotBottom     = 100, 440
)

// Colours tell the peers apart also for most who see fewer of them, and on paper. Ours are warm, the others are not.
var (
	ourColours   = []string{"#c2410c", "#fb923c"}
	theirColours = []string{"#1e3a8a", "#3b82f6", "#93c5fd", "#14532d", "#4ade80", "#6b7280", "#d1d5db"}
)

// colour is the same for a peer in every chart, whoever else is in it.
func colour(name string) string {
	ours, theirs := 0, 0
	for _, p := range compare.Peers {
		of, place := theirColours, &theirs
		if p.Ours {
			of, place = ourColours, &ours
		}
		if p.Name == name {
			return of[*place%len(of)]
		}
		*place++
	}
	return theirColours[0]
}

type chart struct {
	Width, Height                             int
	Left, Right, Top, Bottom, Middle, PlotMid int
	Title, Description, Subtitle              string
	Ticks                                     []tick
	Groups                                    []group
	Keys                                      []key
}

type tick struct {
	Y     float64
	Label string
	Base  bool // the line of ratio 1
}

type group struct {
	X     float64
	Label string
	Bars  []bar
}

type bar struct {
	X, Y, Width, Height, Middle float64
	Low, High                   float64 // of the spread
	LabelY                      float64 // the label's bottom
	Colour, Label, Title        string
}

type key struct {
	X, Y         int
	Colour, Name string
}

// WriteChart draws the pairs per second of all peers relative to rueidis with default options, five masters over TCP.
func (d *Data) WriteChart(w io.Writer) error {
	t, err := template.New("chart").Funcs(template.FuncMap{"text": html.EscapeString}).Parse(chartTemplate)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := t.Execute(w, d.chart()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// chart computes every coordinate, so that the template only writes them down. The axis begins at zero and is linear: bars
// of a logarithmic axis have no length that means anything.
func (d *Data) chart() chart {
	peers := d.charted()
	c := chart{
		Width: chartWidth, Height: chartHeight, Left: plotLeft, Right: plotRight, Top: plotTop, Bottom: plotBottom,
		Middle: (plotLeft + plotRight) / 2, PlotMid: (plotTop + plotBottom) / 2,
		Title: "Acquire/release pairs per second, relative to rueidis with default options",
		Subtitle: fmt.Sprintf("N = 5 masters over TCP; median of %d alternating rounds, lines from least to greatest; more is better",
			d.Settings.Rounds),
	}
	top := d.tallest(peers)
	c.Ticks = ticks(top)
	y := func(v float64) float64 { return plotBottom - v/top*(plotBottom-plotTop) }
	for i, n := range targetCallers {
		g := d.group(i, n, peers, y)
		c.Groups = append(c.Groups, g)
		for _, b := range g.Bars {
			c.Description += b.Title + ". "
		}
	}
	for i, p := range peers {
		c.Keys = append(c.Keys, key{X: plotLeft + i%4*220, Y: 62 + i/4*18, Colour: colour(p.Name), Name: p.Name})
	}
	return c
}

// charted are the peers that work on five masters with any number of callers.
func (d *Data) charted() (all []compare.Peer) {
	for _, p := range d.peers(Healthy) {
		if p.Fits(5, 2) {
			all = append(all, p)
		}
	}
	return all
}

// relative is a peer's throughput relative to the better baseline.
func (d *Data) relative(p compare.Peer, callers int) Spread {
	c := targetCase(Healthy, callers)
	return d.ratio(throughput, side{c, p.Name}, side{c, d.baseline(throughput, c)})
}

// tallest is a round number above all spreads.
func (d *Data) tallest(peers []compare.Peer) float64 {
	top := 1.0
	for _, n := range targetCallers {
		for _, p := range peers {
			if s := d.relative(p, n); s.Known() && !math.IsInf(s.Greatest, 0) {
				top = max(top, s.Greatest)
			}
		}
	}
	step := tickStep(top)
	return math.Ceil(top*1.05/step) * step
}

// tickStep gives four to ten ticks.
func tickStep(top float64) float64 {
	step := 0.2
	for _, s := range []float64{0.5, 1, 2, 5, 10, 20, 50, 100} {
		if top/step <= 10 {
			break
		}
		step = s
	}
	return step
}

// ticks are those of the axis, and last the line of ratio 1, at which a peer is as fast as the baseline.
func ticks(top float64) (all []tick) {
	step := tickStep(top / 1.05)
	for i := 0; float64(i)*step <= top*1.0001; i++ {
		v := float64(i) * step
		y := plotBottom - v/top*(plotBottom-plotTop)
		all = append(all, tick{Y: y, Label: fmt.Sprintf("%g", math.Round(v*10)/10)})
	}
	return append(all, tick{Y: plotBottom - 1/top*(plotBottom-plotTop), Base: true})
}

func (d *Data) group(place, callers int, peers []compare.Peer, y func(float64) float64) group {
	width := float64(plotRight-plotLeft) / float64(len(targetCallers))
	left := plotLeft + float64(place)*width
	g := group{X: left + width/2, Label: callersName(callers)}
	each := width * 0.86 / float64(max(len(peers), 1))
	for i, p := range peers {
		s := d.relative(p, callers)
		// A peer without figures leaves its place empty, so that all groups have the same order.
		if !s.Known() || math.IsInf(s.Greatest, 0) {
			continue
		}
		x := left + width*0.07 + float64(i)*each
		g.Bars = append(g.Bars, bar{
			X: x, Width: each * 0.86, Middle: x + each*0.43,
			Y: y(s.Median), Height: plotBottom - y(s.Median), Low: y(s.Least), High: y(s.Greatest),
			LabelY: labelBottom(y(s.Median), y(s.Greatest)),
			Colour: colour(p.Name), Label: number(s.Median),
			Title: fmt.Sprintf("%s, %s: %s", g.Label, p.Name, s),
		})
	}
	return g
}

// labelBottom returns where a bar's figure stands: directly above the bar, whose
// figure it is. A line of the spread that ends within the figure's height would
// vanish beneath it, and has the figure above its end.
func labelBottom(bar, spreadEnd float64) float64 {
	const gap, height = 3, 14
	if bar-spreadEnd < height {
		return spreadEnd - gap
	}
	return bar - gap
}
