package main

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// codeLines returns how many lines of a file have more than a comment.
func (t *tree) codeLines(f *ast.File) int {
	file := t.fset.File(f.FileStart)
	src, err := os.ReadFile(file.Name())
	if err != nil {
		return 0
	}
	lines := map[int]bool{}
	var s scanner.Scanner
	inner := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(inner, src, nil, 0)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue
		}
		for i := range 1 + strings.Count(text, "\n") {
			lines[inner.Line(pos)+i] = true
		}
	}
}

// goLines returns how many lines the Go files below a folder have, tests
// included.
func goLines(root string, dirs ...string) (n int) {
	for _, dir := range dirs {
		each(filepath.Join(root, dir), ".go", func(text string) { n += strings.Count(text, "\n") })
	}
	return n
}

// documentWords returns how many words the documents of a tree have, and the
// planted bugs.
func documentWords(root string) (n int) {
	each(root, ".md", func(text string) { n += len(strings.Fields(text)) })
	return n
}

// each calls f with the text of each file below a folder whose name ends so.
func each(root, end string, f func(text string)) {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, end) && !d.IsDir() {
			if text, err := os.ReadFile(path); err == nil {
				f(string(text))
			}
		}
		return nil
	})
}

var target = regexp.MustCompile(`(?m)^[a-z][a-z0-9-]*:([^=]|$)`)

// targets returns how many targets a Makefile has.
func targets(root string) int {
	text, _ := os.ReadFile(filepath.Join(root, "Makefile"))
	return len(target.FindAll(text, -1))
}

// filesIn returns how many files a folder has.
func filesIn(dir string) int {
	all, _ := filepath.Glob(filepath.Join(dir, "*"))
	return len(all)
}
