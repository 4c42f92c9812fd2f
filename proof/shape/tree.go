package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A tree is the packages of a workspace, parsed and checked, without tests.
type tree struct {
	root     string
	fset     *token.FileSet
	packages []*pkg
}

type pkg struct {
	path  string // of import
	dir   string // below the root, with slashes
	files []*ast.File
	names []string // of the files, by the same index
	types *types.Package
	info  *types.Info
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// readTree reads the packages of a workspace that match the patterns. The go
// command compiles what they import, so that types are known as the compiler
// knows them.
func readTree(root string, patterns ...string) (*tree, error) {
	all, err := list(root, patterns)
	if err != nil {
		return nil, err
	}
	t := &tree{root: root, fset: token.NewFileSet()}
	exports := map[string]string{}
	for _, l := range all {
		exports[l.ImportPath] = l.Export
	}
	imports := importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, l := range all {
		if l.DepOnly || len(l.GoFiles) == 0 {
			continue
		}
		p, err := t.check(l, imports)
		if err != nil {
			return nil, err
		}
		t.packages = append(t.packages, p)
	}
	return t, nil
}

func list(root string, patterns []string) ([]listed, error) {
	c := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly", "--"}, patterns...)...)
	c.Dir = root
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, said.Bytes())
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
}

func (t *tree) check(l listed, imports types.Importer) (*pkg, error) {
	dir, err := filepath.Rel(t.root, l.Dir)
	if err != nil {
		return nil, err
	}
	p := &pkg{path: l.ImportPath, dir: filepath.ToSlash(dir), names: l.GoFiles, info: &types.Info{
		Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{},
	}}
	for _, name := range l.GoFiles {
		f, err := parser.ParseFile(t.fset, filepath.Join(l.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	p.types, err = (&types.Config{Importer: imports}).Check(l.ImportPath, t.fset, p.files, p.info)
	return p, err
}

// at returns the package of a folder.
func (t *tree) at(dir string) *pkg {
	for _, p := range t.packages {
		if p.dir == dir {
			return p
		}
	}
	return nil
}

// file returns the name of the file of a position.
func (t *tree) file(pos token.Pos) string { return t.fset.Position(pos).Filename }

// top returns the first part of a folder's name.
func top(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	return first
}

func isComparison(op token.Token) bool { return op == token.EQL || op == token.NEQ }

func isBool(t types.Type) bool {
	b, ok := t.(*types.Basic)
	return ok && b.Kind() == types.Bool
}
