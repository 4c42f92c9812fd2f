//go:build unix

package cases

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// columns are those of the file of figures. Latencies are of acquisitions;
// figures are medians of the rounds, and of pairs per second there is the least
// and the greatest, too.
var columns = []string{
	"case", "network", "n", "callers", "instances", "keys", "kind", "hold", "fault", "busy", "impl", "rounds",
	"pairs_per_s", "least", "greatest", "p50_us", "p99_us", "p999_us", "max_us", "cpu_us_per_pair", "servers_cpu_us_per_pair",
	"allocs_per_pair", "failed_percent", "measured",
}

// A figure is a row of the file: what came of one implementation in one row of a
// case.
type figure []string

const heading = "callers\tkind\thold\tfault\tbusy\timplementation\tpairs/s\tp50 µs\tp99 µs\tCPU µs\tallocs"

// String is a row of the table that is printed.
func (f figure) String() string {
	of := func(name string) string { return f[slices.Index(columns, name)] }
	return strings.Join([]string{of("callers"), of("kind"), of("hold"), of("fault"), of("busy"), of("impl"),
		fmt.Sprintf("%s (%s–%s)", of("pairs_per_s"), of("least"), of("greatest")), of("p50_us"), of("p99_us"), of("cpu_us_per_pair"),
		of("allocs_per_pair")}, "\t")
}

// figuresOf sums up the runs of each implementation.
func figuresOf(name string, row Row, runs []run) (all []figure) {
	var done []string
	for _, r := range runs {
		if slices.Contains(done, r.Impl) {
			continue
		}
		done = append(done, r.Impl)
		median := func(figure func(run) float64) string { return digits(spreadOf(roundsOf(runs, r.Impl, figure)).median) }
		latency := func(quantile string) string {
			return median(func(r run) float64 { return r.AcquireUS[quantile] })
		}
		pairs := spreadOf(roundsOf(runs, r.Impl, func(r run) float64 { return r.PairsPerS }))
		var fault string
		if len(r.Work.Faults) > 0 {
			fault = "one stopped"
		}
		all = append(all, figure{
			name, orUnix(r.Work.Network), strconv.Itoa(r.N), strconv.Itoa(r.Clients), orEmpty(r.Work.Instances), orEmpty(r.Work.Keys),
			r.Work.Kind, r.Work.Hold, fault, orEmpty(row.Busy), r.Impl, strconv.Itoa(pairs.count),
			digits(pairs.median), digits(pairs.least), digits(pairs.greatest), latency("p50"), latency("p99"), latency("p999"), latency("max"),
			median(func(r run) float64 { return r.CPUUSPerPair }), "", median(func(r run) float64 { return r.AllocsPerPair }),
			median(run.failed), today(),
		})
	}
	return all
}

// failed is the share of attempts that ended without a grant, in percent.
func (r run) failed() float64 {
	all := int64(0)
	for _, n := range r.Outcomes {
		all += n
	}
	if all == 0 {
		return 0
	}
	return 100 * float64(all-r.Outcomes["granted"]) / float64(all)
}

func orUnix(network string) string {
	if network == "" {
		return "unix"
	}
	return network
}

func orEmpty(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// digits formats a figure with three digits that count, or all before the point.
func digits(x float64) string {
	switch {
	case x >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x == 0:
		return "0"
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// keep replaces the rows of a case in a file.
func keep(name, of string, figures []figure) error {
	old, err := os.Open(name)
	var rows [][]string
	switch {
	case err == nil:
		defer old.Close()
		if rows, err = csv.NewReader(old).ReadAll(); err != nil {
			return err
		}
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if len(rows) > 0 {
		if !slices.Equal(rows[0], columns) {
			return fmt.Errorf("%s has other columns", name)
		}
		rows = rows[1:]
	}
	rows = slices.DeleteFunc(rows, func(row []string) bool { return row[0] == of })
	for _, f := range figures {
		rows = append(rows, f)
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(csv.NewWriter(file).WriteAll(append([][]string{columns}, rows...)), file.Close())
}

// A spread is the median of some figures, the least and the greatest.
type spread struct {
	median, least, greatest float64
	count                   int
}

func spreadOf(all []float64) (s spread) {
	if len(all) == 0 {
		return s
	}
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	return spread{(all[(n-1)/2] + all[n/2]) / 2, all[0], all[n-1], n}
}

// String is as tables show it.
func (s spread) String() string {
	if s.count == 0 {
		return "nothing was measured"
	}
	return fmt.Sprintf("%s (%s–%s)", digits(s.median), digits(s.least), digits(s.greatest))
}
