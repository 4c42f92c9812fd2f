package main

import (
	_ "embed"
	"errors"
	"os"
	"strconv"
	"strings"
	"text/template"
)

// The table is docs/mutants.md: its prose is in mutants.md.tmpl, its rows come
// from the patches and from the run.

//go:embed mutants.md.tmpl
var tableText string

var tableTemplate = template.Must(template.New("mutants.md").Parse(tableText))

// A row is one mutant in the table.
type row struct{ Name, Rule, Breaks, Killers string }

// writeTable writes the table if it is complete: a mutant that could not be
// tried must not look as if it had been.
func writeTable(path string, results []*result, seeds int) error {
	rows, err := rowsOf(results)
	if err != nil {
		return err
	}
	var b strings.Builder
	data := struct {
		Rows  []row
		Seeds int
	}{rows, seeds}
	if err := tableTemplate.Execute(&b, data); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func rowsOf(results []*result) ([]row, error) {
	var rows []row
	for _, r := range results {
		if !r.killed() {
			return nil, errors.New("the table is of mutants that were all killed, and " + r.name + " was not")
		}
		var killers []string
		for i, v := range r.verdicts {
			killers = append(killers, r.killers[i].cell(v))
		}
		rows = append(rows, row{r.name, r.rule, cell(r.breaks), strings.Join(killers, "<br>")})
	}
	return rows, nil
}

// cell names what killed a mutant: the first test that failed, or the
// simulation and its seed.
func (k killer) cell(v verdict) string {
	switch {
	case k.sim != "" && v.seed != 0:
		return "simulation " + v.sim + ", seed " + strconv.Itoa(v.seed)
	case k.sim != "":
		return "simulation " + v.sim
	case v.ending == hung:
		return strings.TrimPrefix(k.pkg, "./") + " " + cell(k.tests) + ", which does not end"
	}
	name := strings.TrimPrefix(k.pkg, "./") + " " + v.test
	for _, f := range k.flags {
		name += " (" + f + ")"
	}
	return cell(name)
}

// cell escapes text for a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
