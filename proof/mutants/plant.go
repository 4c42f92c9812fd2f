package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// errNotPlanted is returned for a mutant whose old lines are not in its package
// exactly once.
var errNotPlanted = errors.New("it cannot be planted")

// edits returns the changed files of a tree with the mutant planted, by their
// path from the root.
func (m *mutant) edits(root string) (map[string]string, error) {
	edited := make(map[string]string)
	for i, h := range m.hunks {
		files, err := sources(root, h.in)
		if err != nil {
			return nil, err
		}
		at, times := "", 0
		for _, file := range files {
			text, err := textOf(root, file, edited)
			if err != nil {
				return nil, err
			}
			if n := strings.Count("\n"+text, "\n"+h.old); n > 0 {
				at, times = file, times+n
			}
		}
		if times != 1 {
			return nil, fmt.Errorf("%w: the old lines of hunk %d occur %d times in %s", errNotPlanted, i+1, times, h.in)
		}
		text, _ := textOf(root, at, edited)
		edited[at] = strings.Replace("\n"+text, "\n"+h.old, "\n"+h.new, 1)[1:]
	}
	return edited, nil
}

// sources lists the files of a package, without its tests.
func sources(root, in string) (files []string, err error) {
	entries, err := os.ReadDir(filepath.Join(root, in))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotPlanted, err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasSuffix(e.Name(), "_test.go") {
			files = append(files, filepath.Join(in, e.Name()))
		}
	}
	return files, nil
}

// textOf returns a file as it was edited, or else as it is.
func textOf(root, file string, edited map[string]string) (string, error) {
	if text, ok := edited[file]; ok {
		return text, nil
	}
	text, err := os.ReadFile(filepath.Join(root, file))
	return string(text), err
}

// plant changes a copy, and returns a function that restores it.
func (m *mutant) plant(pristine, copied string) (restore func() error, err error) {
	edited, err := m.edits(copied)
	if err != nil {
		return nil, err
	}
	for file, text := range edited {
		if err := os.WriteFile(filepath.Join(copied, file), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return func() error {
		for file := range edited {
			if err := copyFile(filepath.Join(pristine, file), filepath.Join(copied, file)); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// check returns what cannot be planted in a tree.
func check(root string, mutants []*mutant) error {
	var wrong []error
	for _, m := range mutants {
		if _, err := m.edits(root); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return errors.Join(wrong...)
}
