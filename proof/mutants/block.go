package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A mutant is one planted bug: a block of a file of testdata/mutants.
//
//	== stopped-server-is-not-fenced
//	In: multiplex
//	Rule: R8
//	Breaks: One sentence that says what goes wrong with it.
//	Killed-by: ./multiplex TestStoppedServerIsFenced
//	Killed-by: sim
//	@@
//	 a line of context
//	-the old line
//	+the new line
//
// A block names a package and no file: its old lines occur once in that
// package. So code may move within it, and no block changes.
type mutant struct {
	name    string
	in      string // the folder of the package, relative to the root
	rule    string
	breaks  string
	killers []killer
	// hangs says that a test that does not end counts as failed ("Killed-by:
	// timeout").
	hangs bool
	hunks []hunk
}

// A hunk replaces whole lines of a package by others.
type hunk struct {
	in       string // "@@ folder", or the mutant's
	old, new string // each line with its end
}

// A killer is one line that names what finds the mutant: the tests of a
// package, or the simulation.
type killer struct {
	flags []string // for go test: "-race", "-tags=…"
	pkg   string   // "./multiplex"
	tests string   // as for go test -run; each name must match as a whole
	sim   bool     // its seeds; then only flags may be set besides
}

// String is equal for lines with the same meaning, so that each is tried once
// on the unbroken tree.
func (k killer) String() string {
	if k.sim {
		return "sim"
	}
	return strings.Join(append(slices.Clone(k.flags), k.pkg, k.tests), " ")
}

// readMutants reads the mutants of a folder's files whose names match. A block
// that is not understood is an error, so that none is silently left out.
func readMutants(dir string, only *regexp.Regexp) ([]*mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []*mutant
	var wrong []error
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		some, err := parseMutants(string(text))
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", path, err))
		}
		all = append(all, some...)
	}
	for _, name := range repeated(all) {
		wrong = append(wrong, fmt.Errorf("two mutants are named %s", name))
	}
	if only != nil {
		all = slices.DeleteFunc(all, func(m *mutant) bool { return !only.MatchString(m.name) })
	}
	if len(all) == 0 && wrong == nil {
		return nil, fmt.Errorf("no mutant of that name in %s", dir)
	}
	return all, errors.Join(wrong...)
}

// repeated returns the names that more than one mutant has.
func repeated(all []*mutant) (names []string) {
	known := make(map[string]bool)
	for _, m := range all {
		if known[m.name] {
			names = append(names, m.name)
		}
		known[m.name] = true
	}
	return names
}

// parseMutants parses the blocks of a file. They stand in the order of their
// names, so that two branches that add some seldom touch the same lines.
func parseMutants(text string) ([]*mutant, error) {
	var all []*mutant
	var wrong []error
	first, rest, found := strings.Cut("\n"+text, "\n== ")
	if strings.TrimSpace(first) != "" || !found {
		return nil, errors.New("it does not begin with a block")
	}
	for _, block := range strings.Split(rest, "\n== ") {
		m, err := parseMutant(block)
		if err != nil {
			name, _, _ := strings.Cut(block, "\n")
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if len(all) > 0 && all[len(all)-1].name > m.name {
			wrong = append(wrong, fmt.Errorf("%s stands after %s, out of order", m.name, all[len(all)-1].name))
		}
		all = append(all, m)
	}
	return all, errors.Join(wrong...)
}

// parseMutant parses a block without the sign in front of its name.
func parseMutant(block string) (*mutant, error) {
	lines := strings.Split(strings.TrimRight(block, "\n"), "\n")
	m := &mutant{name: lines[0]}
	for _, line := range lines[1:] {
		var err error
		switch in, begins := strings.CutPrefix(line, "@@"); {
		case begins:
			m.hunks = append(m.hunks, hunk{in: strings.TrimSpace(in)})
		case len(m.hunks) == 0:
			err = m.note(line)
		default:
			err = m.hunks[len(m.hunks)-1].add(line)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case m.in == "":
		return nil, errors.New("it needs an In")
	case m.rule == "" || m.breaks == "":
		return nil, errors.New("it needs a Rule and what it Breaks")
	case len(m.killers) == 0:
		return nil, errors.New("it needs a Killed-by")
	case len(m.hunks) == 0:
		return nil, errors.New("it changes nothing")
	}
	for i := range m.hunks {
		h := &m.hunks[i]
		if h.in == "" {
			h.in = m.in
		}
		if h.old == "" || h.old == h.new {
			return nil, errors.New("a hunk has no old lines, or changes none")
		}
	}
	return m, nil
}

// note parses one line of the head.
func (m *mutant) note(line string) error {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch name {
	case "In":
		m.in = value
	case "Rule":
		m.rule = value
	case "Breaks":
		m.breaks = value
	case "Killed-by":
		if value == "timeout" {
			m.hangs = true
			return nil
		}
		k, err := parseKiller(value)
		if err != nil {
			return err
		}
		m.killers = append(m.killers, k)
	default:
		return fmt.Errorf("%q is none of In, Rule, Breaks and Killed-by", name)
	}
	return nil
}

// add parses one line of a hunk. An empty line is one of context.
func (h *hunk) add(line string) error {
	if line == "" {
		line = " "
	}
	text := line[1:] + "\n"
	switch line[0] {
	case ' ':
		h.old, h.new = h.old+text, h.new+text
	case '-':
		h.old += text
	case '+':
		h.new += text
	default:
		return fmt.Errorf("%q begins with none of space, - and +", line)
	}
	return nil
}

func parseKiller(text string) (killer, error) {
	var k killer
	words := strings.Fields(text)
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		k.flags, words = append(k.flags, words[0]), words[1:]
	}
	switch {
	case len(words) == 1 && words[0] == "sim":
		k.sim = true
	case len(words) == 2 && strings.HasPrefix(words[0], "./"):
		k.pkg, k.tests = words[0], words[1]
	default:
		return k, fmt.Errorf("%q names neither a package and its tests nor the simulation", text)
	}
	return k, nil
}

// whole makes each name of a -run expression match as a whole, so that TestX
// does not also run TestXY.
func whole(tests string) string {
	parts := strings.Split(tests, "/")
	for i, part := range parts {
		parts[i] = "^(?:" + part + ")$"
	}
	return strings.Join(parts, "/")
}
