package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed testdata/recorder.go.txt
var recorder []byte

//go:embed testdata/walk_test.go.txt
var walker []byte

// walk prints which functions and files a caller's goroutine visits in one
// operation, on five servers. It works on a copy of the tree, in which each
// function says that it was entered.
func walk(root string) ([]row, error) {
	copied, err := os.MkdirTemp("", "redmux-walk")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(copied)
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, name), text, 0o644)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{"resp", "conn", "multiplex", "redlock", "internal"} {
		if err := copyTraced(filepath.Join(copied, dir), filepath.Join(root, dir), dir); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(filepath.Join(copied, "internal/recorder"), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(copied, "internal/recorder/recorder.go"), recorder, 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(copied, "redlock/walk_test.go"), walker, 0o644); err != nil {
		return nil, err
	}
	c := exec.Command("go", "test", "-count=1", "-run", "^TestShapeWalk$", "-v", "./redlock")
	c.Dir, c.Env = copied, append(os.Environ(), "GOWORK=off")
	out, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	var rows []row
	for line := range strings.Lines(string(out)) {
		if _, said, found := strings.Cut(strings.TrimSpace(line), "WALK "); found {
			what, visited, _ := strings.Cut(said, "\t")
			rows = append(rows, row{what: "functions and files visited: " + what, now: strings.ReplaceAll(visited, "\t", ", "), aim: walkAims[what]})
		}
	}
	return rows, nil
}

// copyTraced copies a folder without its tests. Each function records that it
// was entered, except in what the tests themselves use.
func copyTraced(to, from, dir string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, below), 0o755)
		}
		if strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := dir + "/" + filepath.ToSlash(below)
		if strings.HasSuffix(name, ".go") && !strings.HasPrefix(name, "internal/redistest/") {
			if text, err = traced(name, text); err != nil {
				return err
			}
		}
		return os.WriteFile(filepath.Join(to, below), text, 0o644)
	})
}

// traced returns a file whose functions call the recorder as they begin.
func traced(name string, src []byte) ([]byte, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	type insertion struct {
		at   int
		text string
	}
	var all []insertion
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && fn.Name.Name != "init" {
			all = append(all, insertion{
				fset.Position(fn.Body.Lbrace).Offset + 1, fmt.Sprintf("recorder.Enter(%q, %d);", name, fset.Position(fn.Pos()).Line),
			})
		}
	}
	if len(all) == 0 {
		return src, nil
	}
	all = append(all, insertion{fset.Position(f.Name.End()).Offset, "; import \"github.com/redmux/redmux/internal/recorder\""})
	slices.SortFunc(all, func(a, b insertion) int { return b.at - a.at })
	for _, i := range all {
		src = slices.Concat(src[:i.at], []byte(i.text), src[i.at:])
	}
	return src, nil
}
