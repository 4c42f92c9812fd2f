// Package report turns measurements into ratios, tables and a chart. The same
// data always gives the same text, so that a report can be written again from
// its data.
package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/bench/compare/internal/window"
)

// Data is everything that a report is made of.
type Data struct {
	Schema   int // of this file; see schema
	Date     time.Time
	Commit   string `json:",omitempty"` // of the tree that was measured; empty if unknown
	Machine  Machine
	Versions []Version
	Settings Settings
	Samples  []Sample
	Replaced []string `json:",omitempty"` // cases that are of a further run; see Replace
}

// schema changes if data of an earlier version could be misunderstood.
const schema = 1

// Machine is where it was measured. A field that is not known is empty.
type Machine struct {
	System, Kernel, CPU, Memory, Go string
	CPUs, Procs                     int // logical CPUs, and how many of them Go used
}

// A Version is that of a module or of the servers.
type Version struct{ Name, Version string }

// Settings are the choices that hold for all windows.
type Settings struct {
	Rounds                      int
	TTL, Window, Warmup, Settle time.Duration
	StopWindow, CountWindow     time.Duration
	WarmupLimit                 time.Duration
	WarmPairs                   int
	Notes                       []string // what was left out, and why
}

// A Kind is what happens around the callers of a case.
type Kind string

// The kinds of cases.
const (
	Healthy  Kind = "healthy"  // all masters answer
	Stopped  Kind = "stopped"  // one master was stopped before the window began
	Stopping Kind = "stopping" // one master is stopped in the middle of the window
	Counting Kind = "counting" // system calls are counted meanwhile, which may disturb
)

// kinds are all kinds in the order in which they are shown.
var kinds = []Kind{Healthy, Stopped, Stopping, Counting}

// A Case is one situation in which peers take turns.
type Case struct {
	Kind    Kind
	Network string // tcp, unix or tls
	Nodes   int
	Callers int
}

// String names the case without its kind.
func (c Case) String() string {
	return fmt.Sprintf("%s, N = %d, %s", networkName(c.Network), c.Nodes, callersName(c.Callers))
}

func networkName(network string) string {
	if network == "unix" {
		return network
	}
	return strings.ToUpper(network)
}

func callersName(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return thousands(int64(n)) + " callers"
}

func (c Case) compare(d Case) int {
	return cmp.Or(
		cmp.Compare(slices.Index(kinds, c.Kind), slices.Index(kinds, d.Kind)),
		cmp.Compare(c.Network, d.Network),
		cmp.Compare(c.Nodes, d.Nodes),
		cmp.Compare(c.Callers, d.Callers),
	)
}

// A Sample is one window of one peer.
type Sample struct {
	Case
	Peer  string
	Round int // peers' windows of one round are neighbours in time
	Place int // whose turn it was in the round
	window.Result
}

// Write writes the data as JSON.
func (d *Data) Write(w io.Writer) error {
	d.Schema = schema
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(d)
}

// Read reads what Write wrote.
func Read(r io.Reader) (*Data, error) {
	var d Data
	if err := json.NewDecoder(r).Decode(&d); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	if d.Schema != schema {
		return nil, fmt.Errorf("report: the data has schema %d, not %d", d.Schema, schema)
	}
	return &d, nil
}

// Replace replaces cases by those of another run, with all their peers and
// rounds, so that no ratio is taken between two runs. The report names them.
// Both runs must have the same settings.
func (d *Data) Replace(again *Data) error {
	mine, theirs := d.Settings, again.Settings
	mine.Notes, theirs.Notes = nil, nil
	if !reflect.DeepEqual(mine, theirs) || d.Machine != again.Machine || !slices.Equal(d.Versions, again.Versions) {
		return errors.New("report: the second run was made in another way, or elsewhere")
	}
	var names []string
	for _, c := range again.cases(kinds...) {
		d.Samples = slices.DeleteFunc(d.Samples, func(s Sample) bool { return s.Case == c })
		names = append(names, fmt.Sprintf("%s (%s)", c, c.Kind))
	}
	d.Samples = append(d.Samples, again.Samples...)
	d.Replaced = append(d.Replaced, names...)
	return nil
}

// cases returns all cases of some kinds, in order.
func (d *Data) cases(of ...Kind) (all []Case) {
	for _, s := range d.Samples {
		if slices.Contains(of, s.Kind) && !slices.Contains(all, s.Case) {
			all = append(all, s.Case)
		}
	}
	slices.SortFunc(all, Case.compare)
	return all
}

// peers returns the peers that were measured in any case of these kinds, in the
// order of compare.Peers.
func (d *Data) peers(in ...Kind) (all []compare.Peer) {
	for _, p := range compare.Peers {
		if slices.ContainsFunc(d.Samples, func(s Sample) bool { return s.Peer == p.Name && slices.Contains(in, s.Kind) }) {
			all = append(all, p)
		}
	}
	return all
}

// opponents returns the peers without ours.
func (d *Data) opponents(in ...Kind) []compare.Peer {
	return slices.DeleteFunc(d.peers(in...), func(p compare.Peer) bool { return p.Ours })
}

// windows returns a peer's samples of a case, by round.
func (d *Data) windows(c Case, peer string) map[int]Sample {
	all := map[int]Sample{}
	for _, s := range d.Samples {
		if s.Case == c && s.Peer == peer {
			all[s.Round] = s
		}
	}
	return all
}
