package load

import (
	"encoding/csv"
	"io"
	"strconv"
)

// writeCSV prints one row per run, under a row of names. Scripts read them: new
// columns go to the end, and none is renamed. Names are those of the JSON
// result, joined with "_" where it nests (docs/cli.md).
func (r result) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	header := []string{"impl", "backend", "n", "clients", "loop", "rate", "duration_s", "pairs"}
	out.Write(append(header, columnNames()...))
	for _, run := range r.Runs {
		row := []string{run.Impl, run.Backend, strconv.Itoa(run.N), strconv.Itoa(run.Clients), run.Loop, plain(run.Rate), plain(run.DurationS), strconv.FormatInt(run.Pairs, 10)}
		for _, m := range runMetrics {
			row = append(row, plain(m.figure(run)))
		}
		out.Write(row)
	}
	out.Flush()
	return out.Error()
}

// plain formats a figure with all its digits and without an exponent.
func plain(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
