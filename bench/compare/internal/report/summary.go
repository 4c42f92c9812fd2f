package report

import (
	"fmt"

	"github.com/redmux/redmux/bench/compare"
)

// A Summary is what CI checks in one case.
type Summary struct {
	OverDefault Spread // our pairs per second by those of rueidis with default options, returning at the quorum
	OverTuned   Spread
	OverAsync   Spread // go-redis' automatic pipelining
	Allocations Spread // ours, per pair
	Trouble     []string
}

// Summary returns the summary of a case.
func (d *Data) Summary(c Case) Summary {
	s := Summary{
		OverDefault: d.gain(throughput, c, compare.Ours, compare.Default),
		OverTuned:   d.gain(throughput, c, compare.Ours, compare.Tuned),
		OverAsync:   d.gain(throughput, c, compare.Ours, compare.Async),
		Allocations: d.level(mallocs, side{c, compare.Ours}),
	}
	for _, sample := range d.Samples {
		if sample.Failure != "" || len(sample.Errors) > 0 {
			s.Trouble = append(s.Trouble,
				fmt.Sprintf("round %d, %s: %s %v", sample.Round+1, sample.Peer, sample.Failure, sample.Errors))
		}
	}
	return s
}
