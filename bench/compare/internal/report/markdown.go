package report

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/redmux/redmux/bench/compare"
)

//go:embed results.md.tmpl
var resultsTemplate string

// WriteMarkdown writes the report.
func (d *Data) WriteMarkdown(w io.Writer) error {
	t, err := template.New("results").Funcs(template.FuncMap{
		"short":  shortened,
		"lower":  strings.ToLower,
		"bullet": bullets,
	}).Parse(resultsTemplate)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, d.page()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = io.WriteString(w, singleSpaced(b.String()))
	return err
}

// page is what the template shows. Tables are made here, so that the template
// is prose.
type page struct {
	*Data
	Day, Machines                       string
	VersionTable, PeerTable             string
	Headline, Best                      string
	Targets, Losses, Trouble, Raw       string
	Slower                              string
	Ours                                []oursPage
	StoppedThroughput, StoppedP99, Gaps string
	ClientCPULevels, ServersCPULevels   string
	AllocationLevels, SyscallLevels     string
	Unknowns                            []string
	LossCount                           int
}

// oursPage compares one of ours with the opponents.
type oursPage struct {
	Name                                      string
	Throughput, P99, Client, Servers, Stopped string
}

// page makes the tables. A table without rows is empty, and the template leaves
// its heading out.
func (d *Data) page() page {
	p := page{
		Data: d, Day: d.Date.UTC().Format("2 January 2006"), Machines: d.Machine.String(),
		VersionTable: d.versionTable(), PeerTable: d.peerTable(), Headline: d.headline(), Best: d.bestTable(),
		Targets: d.targetTable(), Losses: lossTable(d.losses()), Slower: d.slowerTable(compare.Ours), Trouble: d.troubleTable(), Raw: d.rawTable(),
		StoppedThroughput: d.ofHealthyTable(throughput), StoppedP99: d.ofHealthyTable(p99), Gaps: d.levelTable(longestGap, Stopping),
		ClientCPULevels: d.levelTable(clientCPU, Healthy), ServersCPULevels: d.levelTable(serversCPU, Healthy),
		AllocationLevels: d.levelTable(mallocs, Healthy), SyscallLevels: d.levelTable(syscalls, Counting),
		Unknowns: d.unknowns(), LossCount: len(d.losses()),
	}
	for _, ours := range d.peers(Healthy, Stopped) {
		if !ours.Ours {
			continue
		}
		p.Ours = append(p.Ours, oursPage{
			Name:       ours.Name,
			Throughput: d.gainTable(throughput, Healthy, ours.Name),
			P99:        d.gainTable(p99, Healthy, ours.Name),
			Client:     d.gainTable(clientCPU, Healthy, ours.Name),
			Servers:    d.gainTable(serversCPU, Healthy, ours.Name),
			Stopped:    d.gainTable(throughput, Stopped, ours.Name),
		})
	}
	return p
}

// Opponents lists the names of those that ours is compared with.
func (p page) Opponents() string {
	return strings.Join(names(p.opponents(Healthy, Stopped)), ", ")
}

// First names the peer that the first page is about.
func (p page) First() string { return compare.Ours }

// Default names the peers of which the better is "rueidis, default options".
func (p page) Default() string { return compare.Default + " and " + compare.DefaultAll }

// String describes the machine in a line, without what is not known.
func (m Machine) String() string {
	var all []string
	for _, s := range []string{m.CPU, m.Memory, m.System, m.Kernel, m.Go} {
		if s != "" {
			all = append(all, s)
		}
	}
	return fmt.Sprintf("%d logical CPUs (GOMAXPROCS %d), %s", m.CPUs, m.Procs, strings.Join(all, ", "))
}

func bullets(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("- " + l + "\n")
	}
	return b.String()
}

// singleSpaced leaves one empty line where the template's conditions left
// several.
func singleSpaced(s string) string {
	for strings.Contains(s, "\n\n\n") {
		s = strings.ReplaceAll(s, "\n\n\n", "\n\n")
	}
	return strings.TrimSpace(s) + "\n"
}
