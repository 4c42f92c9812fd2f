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

// A patch is one mutant: input for git apply, after a head of lines that git
// apply skips.
//
//	Rule: R8
//	Breaks: One sentence that says what goes wrong with it.
//	Killed-by: ./multiplex TestStoppedServerIsFenced
//	Killed-by: sim
//
//	--- a/multiplex/life.go
//	+++ b/multiplex/life.go
//	…
type patch struct {
	name    string // of the file, without .patch
	rule    string
	breaks  string
	killers []killer
	// hangs says that a test that does not end counts as failed ("Killed-by:
	// timeout").
	hangs bool
	files []string // the changed files, relative to the root
	path  string
}

// A killer is one line that names what finds the mutant: the tests of a
// package, or a simulation.
type killer struct {
	flags []string // for go test: "-race", "-tags=…"
	pkg   string   // "./multiplex"
	tests string   // as for go test -run; each name must match as a whole
	// sim names a simulation, or is simAny; then only flags may be set besides.
	sim string
}

// simAny stands for the simulation that finds the mutant first.
const simAny = "any"

// key is equal for lines with the same meaning, so that each is tried once on
// the unbroken tree.
func (k killer) key() string {
	if k.sim != "" {
		return "sim " + k.sim
	}
	return strings.Join(append(slices.Clone(k.flags), k.pkg, k.tests), " ")
}

func (k killer) String() string {
	if k.sim == simAny {
		return "sim"
	}
	return k.key()
}

// readPatches reads the patches of a folder whose names match, in the order of
// their names. A patch that is not understood is an error, so that none is
// silently left out.
func readPatches(dir string, only *regexp.Regexp) ([]*patch, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var all []*patch
	var wrong []error
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if only != nil && !only.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		p, err := parsePatch(name, string(text))
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", path, err))
			continue
		}
		p.path = path
		all = append(all, p)
	}
	if len(all) == 0 && wrong == nil {
		return nil, fmt.Errorf("no patch in %s", dir)
	}
	return all, errors.Join(wrong...)
}

func parsePatch(name, text string) (*patch, error) {
	p := &patch{name: name}
	head := true
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "--- "):
			head = false
		case strings.HasPrefix(line, "+++ "):
			file, ok := strings.CutPrefix(line, "+++ b/")
			if !ok {
				return nil, errors.New("a file is added, removed, or not named b/…") // it could not be restored
			}
			p.files = append(p.files, file)
		case head && line != "":
			if err := p.note(line); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case p.rule == "" || p.breaks == "":
		return nil, errors.New("it needs a Rule and what it Breaks")
	case len(p.killers) == 0:
		return nil, errors.New("it needs a Killed-by")
	case len(p.files) == 0:
		return nil, errors.New("it changes nothing")
	}
	return p, nil
}

// note parses one line of the head.
func (p *patch) note(line string) error {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch name {
	case "Rule":
		p.rule = value
	case "Breaks":
		p.breaks = value
	case "Killed-by":
		if value == "timeout" {
			p.hangs = true
			return nil
		}
		k, err := parseKiller(value)
		if err != nil {
			return err
		}
		p.killers = append(p.killers, k)
	default:
		return fmt.Errorf("%q is none of Rule, Breaks and Killed-by", name)
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
		k.sim = simAny
	case len(words) == 2 && words[0] == "sim" && simulations[words[1]] != nil:
		k.sim = words[1]
	case len(words) == 2 && strings.HasPrefix(words[0], "./"):
		k.pkg, k.tests = words[0], words[1]
	default:
		return k, fmt.Errorf("%q names neither a package and its tests nor a simulation", text)
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
