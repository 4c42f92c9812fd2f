package report

import (
	"errors"
	"fmt"
	"html"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/redmux/redmux/bench/compare"
)

const (
	chartTitle = "Acquire/release pairs per second, relative to the best peer of each case"
	figureSize = 9.5 // points, of the figures at the bars and of no other text
)

// Colours that most people with colour blindness can tell apart, and that
// differ on paper. Ours are warm, the others are not. A peer without a colour is
// not in the chart: variants of others that are never the best would only
// narrow the bars.
var colours = map[string]color.RGBA{
	compare.Ours: {0xc2, 0x41, 0x0c, 0xff}, compare.Portable: {0xfb, 0x92, 0x3c, 0xff},
	compare.Default: {0x1e, 0x3a, 0x8a, 0xff}, compare.Tuned: {0x3b, 0x82, 0xf6, 0xff}, compare.Valkey: {0x93, 0xc5, 0xfd, 0xff},
	compare.Async: {0x14, 0x53, 0x2d, 0xff}, compare.Duplex: {0x22, 0xa0, 0x5a, 0xff}, compare.Blocking: {0x86, 0xd9, 0xa2, 0xff},
	compare.Redsync: {0x6b, 0x72, 0x80, 0xff},
}

// charted reports whether a peer is in the chart.
func charted(p compare.Peer) bool {
	_, coloured := colours[p.Name]
	return coloured && p.Fits(5)
}

// WriteChart draws the pairs per second on five masters over TCP, relative to
// the best peer of each number of callers. The axis begins at zero and is
// linear: on a logarithmic axis, the length of a bar means nothing.
func (d *Data) WriteChart(w io.Writer) error {
	subtitle := fmt.Sprintf("N = 5 masters over TCP; median of %d alternating rounds, lines from least to greatest; more is better",
		d.Settings.Rounds)
	p := plot.New()
	p.Title.Text, p.Title.Padding = chartTitle+"\n"+subtitle, 12
	p.X.Label.Text, p.Y.Label.Text = "callers at once", "× the best peer"
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs, p.Legend.Padding, p.Legend.ThumbnailWidth = true, true, 8, 3, 11
	var groups []string
	for _, n := range targetCallers {
		groups = append(groups, callersName(n))
	}
	p.NominalX(groups...)
	p.X.Min, p.X.Max, p.Y.Min = -0.5, float64(len(groups))-0.5, 0
	grid := plotter.NewGrid()
	grid.Vertical.Width, grid.Horizontal.Color = 0, color.Gray{0xe5}
	even := plotter.NewFunction(func(float64) float64 { return 1 }) // as fast as the best peer
	even.Dashes = []vg.Length{4, 3}
	p.Add(grid, even)

	peers := slices.DeleteFunc(d.peers(Healthy), func(p compare.Peer) bool { return !charted(p) })
	description := subtitle + "."
	for i, peer := range peers {
		place := 0.86 * (float64(i) - float64(len(peers)-1)/2) / float64(len(peers))
		figures, err := d.addPeer(p, peer.Name, place)
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		description += figures
	}
	p.Y.Max = max(p.Y.Max, 1) * 1.05 // room for a figure

	canvas := vgsvg.New(960, 520)
	p.Draw(draw.New(canvas))
	var svg strings.Builder
	if _, err := canvas.WriteTo(&svg); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err := io.WriteString(w, finish(svg.String(), description))
	return err
}

// addPeer adds a peer's bars with their spreads and figures, and returns the
// figures as text. A peer without figures leaves its place empty, so that all
// groups have the same order.
func (d *Data) addPeer(p *plot.Plot, name string, place float64) (text string, err error) {
	n := len(targetCallers)
	medians, places, figures, spreads := make(plotter.Values, n), make(plotter.XYs, n), make([]string, n), make(plotter.YErrors, n)
	for i, callers := range targetCallers {
		places[i].X = float64(i) + place
		c := targetCase(Healthy, callers)
		best, _ := d.best(throughput, c)
		s := d.ratio(throughput, side{c, name}, side{c, best})
		if !s.Known() || math.IsInf(s.Greatest, 0) {
			continue
		}
		medians[i], places[i].Y, figures[i] = s.Median, s.Median, number(s.Median)
		spreads[i].Low, spreads[i].High = s.Median-s.Least, s.Greatest-s.Median
		text += fmt.Sprintf(" %s, %s: %s.", callersName(callers), name, s)
	}
	bars, err := plotter.NewBarChart(medians, 20)
	lines, badLines := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{places, spreads})
	labels, badLabels := plotter.NewLabels(plotter.XYLabels{XYs: places, Labels: figures})
	if err := errors.Join(err, badLines, badLabels); err != nil {
		return "", err
	}
	bars.XMin, bars.Color, bars.LineStyle.Width = place, colours[name], 0
	lines.CapWidth, labels.Offset.Y = 0, 3
	for i := range labels.TextStyle {
		labels.TextStyle[i].XAlign, labels.TextStyle[i].Font.Size = draw.XCenter, figureSize
	}
	p.Add(bars, lines, labels)
	p.Legend.Add(name, bars)
	return text, nil
}

// finish gives the picture a description and fonts that every system has. The
// figures get a white border, since they stand on the lines of the spreads.
func finish(svg, description string) string {
	figure := fmt.Sprintf("font-size:%vpx", figureSize)
	return strings.NewReplacer(
		"font-family:Liberation Serif", "font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif",
		figure, figure+";stroke:#fff;stroke-width:3;stroke-linejoin:round;paint-order:stroke",
		"xlink\">", "xlink\">\n<title>"+chartTitle+"</title>\n<desc>"+html.EscapeString(description)+"</desc>",
	).Replace(svg)
}
