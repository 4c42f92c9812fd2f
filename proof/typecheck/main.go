// Command typecheck type-checks packages and their tests for other systems, as
// in "typecheck linux/386 windows/arm64 -- ./...".
//
// It finds what does not compile there: a file that a build constraint leaves
// out, a name that a system lacks, a constant that is too large for 32 bits.
// It generates no code and skips the function bodies of dependencies, so that
// a system takes seconds, not the minutes in which go vet compiles the
// standard library. Cgo is off.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	flag.Parse()
	if err := run(flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "typecheck:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	end := slices.Index(args, "--")
	if end < 1 || end == len(args)-1 {
		return errors.New("usage: typecheck os/arch... -- packages")
	}
	known, err := exec.Command("go", "tool", "dist", "list").Output()
	if err != nil {
		return fmt.Errorf("go tool dist list: %w", err)
	}
	var failed []error
	for _, system := range args[:end] {
		if !slices.Contains(strings.Fields(string(known)), system) { // go list -e would list nothing
			return fmt.Errorf("%q is not a system that Go knows", system)
		}
		goos, goarch, _ := strings.Cut(system, "/")
		n, err := check(goos, goarch, args[end+1:])
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", system, err))
			continue
		}
		fmt.Fprintf(out, "%s: %d packages and tests\n", system, n)
	}
	return errors.Join(failed...)
}

// A listed is what "go list -json" says of a package, or of one of its tests.
type listed struct {
	Dir, ImportPath, Name string
	GoFiles               []string
	ImportMap             map[string]string
	DepOnly               bool
	ForTest               string
	Module                *struct{ GoVersion string }
	Error                 *struct{ Err string }
}

// check returns how many packages and tests it checked, or what is wrong.
func check(goos, goarch string, patterns []string) (int, error) {
	all, err := list(goos, goarch, patterns)
	if err != nil {
		return 0, err
	}
	c := checker{sizes: types.SizesFor("gc", goarch), fset: token.NewFileSet(), done: map[string]*types.Package{"unsafe": types.Unsafe}}
	checked := 0
	for _, p := range all { // dependencies come first
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue // a generated main package
		}
		c.check(p)
		if p.ours() {
			checked++
		}
	}
	if checked == 0 {
		return 0, errors.New("no package")
	}
	return checked, errors.Join(c.errs...)
}

// ours reports whether the package was asked for, and is not a dependency.
func (p *listed) ours() bool { return !p.DepOnly || p.ForTest != "" }

// list runs go list. Packages come after those that they import.
func list(goos, goarch string, patterns []string) ([]*listed, error) {
	cmd := exec.Command("go", append([]string{"list", "-e", "-deps", "-test",
		"-json=Dir,ImportPath,Name,GoFiles,ImportMap,DepOnly,ForTest,Module,Error"}, patterns...)...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []*listed
	for d := json.NewDecoder(strings.NewReader(string(text))); ; {
		p := new(listed)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if p.Error != nil && p.ours() && len(p.GoFiles) > 0 {
			return nil, errors.New(p.Error.Err)
		}
		all = append(all, p)
	}
}

type checker struct {
	sizes types.Sizes
	fset  *token.FileSet
	done  map[string]*types.Package // by the import path that go list gives, as "p [p.test]"
	errs  []error
}

func (c *checker) check(p *listed) {
	if len(p.GoFiles) == 0 {
		return // build constraints leave nothing of it on this system
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(c.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			c.errs = append(c.errs, err)
			return
		}
		files = append(files, f)
	}
	config := types.Config{
		Importer: importer{c, p}, Sizes: c.sizes, IgnoreFuncBodies: !p.ours(), FakeImportC: true,
		Error: func(err error) {
			if p.ours() {
				c.errs = append(c.errs, err)
			}
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	c.done[p.ImportPath], _ = config.Check(path, c.fset, files, nil) // Error has it
}

// An importer finds what one package imports.
type importer struct {
	*checker
	of *listed
}

func (i importer) Import(path string) (*types.Package, error) {
	if mapped, ok := i.of.ImportMap[path]; ok {
		path = mapped
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s: not found", path)
}
