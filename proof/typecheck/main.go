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
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
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
		if !slices.Contains(strings.Fields(string(known)), system) { // go list would list nothing
			return fmt.Errorf("%q is not a system that Go knows", system)
		}
		n, err := check(system, args[end+1:])
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", system, err))
			continue
		}
		fmt.Fprintf(out, "%s: %d packages and tests\n", system, n)
	}
	return errors.Join(failed...)
}

// check returns how many packages and tests it checked, or what is wrong.
func check(system string, patterns []string) (checked int, err error) {
	goos, goarch, _ := strings.Cut(system, "/")
	// With dependencies that are parsed, nothing is compiled for export data.
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedModule,
		Env: append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"), Tests: true,
	}, patterns...)
	if err != nil {
		return 0, err
	}
	var wrong []error
	for _, p := range all {
		if len(p.GoFiles) == 0 || strings.HasSuffix(p.PkgPath, ".test") {
			continue // build constraints leave nothing of it on this system, or it is a generated main package
		}
		checked++
		for _, e := range p.Errors {
			wrong = append(wrong, e)
		}
	}
	if checked == 0 {
		return 0, errors.New("no package")
	}
	return checked, errors.Join(wrong...)
}
