package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// A row is a measure, what it is now, and what it is to be.
type row struct{ what, now, aim string }

// walkAims are the aims of walks: functions, files.
var walkAims = map[string]string{"TryAcquire": "≤ 100, ≤ 26", "election term": "≤ 170, ≤ 42"}

// library are the packages that users import, and what these are made of.
var library = []string{"resp", "conn", "multiplex", "redlock", "redlock/admin", "redlock/election", "redlock/internal/inside",
	"redlock/internal/kind", "redlock/internal/wire", "multiplex/internal/member", "internal/pure", "internal/lua", "internal/errtext"}

// measure returns the rows of a tree, from the whole to its parts.
func measure(root string) ([]row, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	t, err := readTree(root, "./resp/...", "./conn/...", "./multiplex/...", "./redlock/...", "./redlocktest/...", "./internal/...",
		"./bench", "./cmd/...", "./proof/...")
	if err != nil {
		return nil, err
	}
	house := t.imports()
	rows := []row{
		{"folders: arrows, of these back up", fmt.Sprintf("%d, %d", house.count(), house.backUp()), "0 back"},
		t.filesRow("redlock"), t.filesRow("multiplex"), t.filesRow("conn"), t.filesRow("resp"), t.filesRow("internal/pure"),
		t.methodsRow("redlock", "Client", "≤ 75"), t.methodsRow("multiplex", "Group", "≤ 85"), t.methodsRow("multiplex", "node", "≤ 62"),
		t.kindsRow(),
		t.fieldsRow("multiplex", "node", "≤ 25"), t.fieldsRow("conn", "Conn", "≤ 24"), t.fieldsRow("redlock", "keeper", "≤ 18"),
		t.fieldsRow("proof/faults", "worker", "≤ 30"), t.fieldsRow("redlock", "Config", "≤ 21"),
	}
	rows = append(rows, t.linesRows()...)
	for dir, aim := range pairs("redlock", "≤ 4.2", "multiplex", "≤ 4.2", "conn", "≤ 4.2", "resp", "≤ 4.2", "internal/pure", "≤ 4.2") {
		rows = append(rows, t.conditionsRow(dir, aim))
	}
	for dir, aim := range pairs("redlock", "", "multiplex", "≤ 3.5", "conn", "", "resp", "", "internal/pure", "≤ 7") {
		rows = append(rows, t.operatorsRow(dir, aim))
	}
	return rows, nil
}

// pairs yields what it is given, two at a time.
func pairs(all ...string) func(yield func(a, b string) bool) {
	return func(yield func(a, b string) bool) {
		for i := 0; i < len(all) && yield(all[i], all[i+1]); i += 2 {
		}
	}
}

func (t *tree) filesRow(dir string) row {
	p := t.at(dir)
	a := t.between(p)
	back := a.backUp()
	return row{dir + ": files, arrows, of these back up", fmt.Sprintf("%d, %d, %d (%d %%)", len(p.files), a.count(), back, back*100/max(1, a.count())), ""}
}

func (t *tree) methodsRow(dir, name, aim string) row {
	n, in := t.methods(t.at(dir), name)
	return row{"methods of " + name, fmt.Sprintf("%d in %d files", n, in), aim}
}

func (t *tree) fieldsRow(dir, name, aim string) row {
	written, flat := fields(t.at(dir), name)
	return row{"fields of " + dir + "." + name + ", flat", fmt.Sprintf("%d (%d as written)", flat, written), aim}
}

func (t *tree) kindsRow() row {
	n, in := t.branchers(t.at("redlock"), "Kind")
	return row{"functions that branch on the kind of a lock", fmt.Sprintf("%d in %d files", n, in), "≤ 2"}
}

func (t *tree) conditionsRow(dir, aim string) row {
	words, clauses := conditions(t.at(dir))
	return row{dir + ": subordinate words per 100 of comments", per100(clauses, words), aim}
}

func (t *tree) operatorsRow(dir, aim string) row {
	lines, found := t.operators(t.at(dir))
	return row{dir + ": && and || per 100 lines of code", per100(found, lines), aim}
}

func (t *tree) linesRows() []row {
	var of []*pkg
	for _, dir := range library {
		of = append(of, t.at(dir))
	}
	code, _ := t.operators(of...)
	doc, _ := t.run("go", "doc", "-all", "./redlock")
	return []row{
		{"lines of code of the library", fmt.Sprint(code), "≤ 15,300"},
		{"lines of Go: all", fmt.Sprint(goLines(t.root, ".")), "≤ 114,000"},
		{"… the library with tests, redistest, redlocktest, bench", fmt.Sprint(goLines(t.root, "resp", "conn", "multiplex", "redlock", "internal", "redlocktest") + benchLines(t.root)), "≤ 71,000"},
		{"go doc -all ./redlock, lines", fmt.Sprint(strings.Count(doc, "\n")), "≤ 1,200"},
		{"names that redlock exports", fmt.Sprint(exported(t.at("redlock"))), "≤ 135"},
		{"documents, words", fmt.Sprint(documentWords(t.root)), "≤ 48,000"},
		{"files of planted bugs", fmt.Sprint(filesIn(filepath.Join(t.root, "testdata/mutants"))), "about 10"},
		{"targets of make", fmt.Sprint(targets(t.root)), "≤ 14"},
	}
}

// benchLines returns the lines of bench without what stands below it, which is
// of other modules.
func benchLines(root string) (n int) {
	return goLines(root, "bench") - goLines(root, "bench/compare")
}

func (t *tree) run(name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir = t.root
	out, err := c.Output()
	return string(out), err
}

func per100(n, of int) string { return fmt.Sprintf("%.1f", 100*float64(n)/float64(max(1, of))) }

// print prints rows as a table of Markdown.
func print(rows []row) {
	fmt.Println("| measure | now | aim |\n|---|---|---|")
	for _, r := range rows {
		fmt.Printf("| %s | %s | %s |\n", r.what, r.now, r.aim)
	}
}
