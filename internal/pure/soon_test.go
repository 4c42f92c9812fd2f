package pure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A timer that may be set in a bubble is never set to a time that may be zero,
// in tests either: see Soon. The test recognizes a positive time by its form: a
// constant, max with a constant, a sum with a constant. It checks every file of
// packages that are tested in bubbles. Commands and benchmarks run in real
// time, so there it checks each test file that uses bubbles and the file under
// test.
func TestTimersLieAhead(t *testing.T) {
	const root = "../.."
	looked := make(map[string][]string) // directory → files
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || !usesBubbles(t, path) {
			return err
		}
		folder := filepath.Dir(path)
		switch top := strings.Split(filepath.ToSlash(folder), "/")[2]; top {
		case "cmd", "bench":
			looked[folder] = append(looked[folder], path, strings.TrimSuffix(path, "_test.go")+".go")
		default:
			looked[folder], err = filepath.Glob(filepath.Join(folder, "*.go"))
		}
		return err
	}))
	for _, folder := range []string{"conn", "multiplex", "redlock", "redlocktest", "internal/redistest", "cmd/redlock"} {
		require.Contains(t, looked, filepath.Join(root, folder))
	}
	timers, dueAtOnce := 0, []string(nil)
	for folder, files := range looked {
		n, due := timersOf(t, folder, files)
		timers, dueAtOnce = timers+n, append(dueAtOnce, due...)
	}
	assert.Greater(t, timers, 50, "the timers are found")
	assert.Empty(t, dueAtOnce, "set these to max(pure.Soon, ...)")
}

func TestWhatLiesAhead(t *testing.T) {
	constants := map[string]bool{"ms": true, "patience": true}
	for source, want := range map[string]bool{
		"0": false, "d": false, "rand.N(ms)": false, "time.Duration(r.IntN(5))*ms": false, "max(0, d)": false, "at - now": false, "2 - ms": false,
		"1": true, "ms": true, "5*ms": true, "ms/2": true, "time.Second": true, "pure.Soon": true, "max(pure.Soon, d)": true,
		"max(d, patience)": true, "1 + rand.N(ms)": true, "time.Duration(1+r.IntN(5))*ms": true, "(ms)": true,
	} {
		e, err := parser.ParseExpr(source)
		require.NoError(t, err)
		assert.Equal(t, want, isAhead(e, constants), source)
	}
}

func usesBubbles(t *testing.T, path string) bool {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	require.NoError(t, err)
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
}

// timersOf counts the calls in some files of a folder that set a timer, and
// returns those that may set it to zero.
func timersOf(t *testing.T, folder string, paths []string) (timers int, dueAtOnce []string) {
	fset, constants := token.NewFileSet(), make(map[string]bool)
	all, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	for _, path := range all { // a constant may stand in another one
		file, err := parser.ParseFile(fset, path, nil, 0)
		require.NoError(t, err)
		if slices.Contains(paths, path) {
			files = append(files, file)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
				for _, s := range d.Specs {
					for _, name := range s.(*ast.ValueSpec).Names {
						constants[name.Name] = true
					}
				}
			}
			return true
		})
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && setsTimer(call) {
				timers++
				if !isAhead(call.Args[0], constants) {
					dueAtOnce = append(dueAtOnce, fset.Position(call.Pos()).String())
				}
			}
			return true
		})
	}
	return timers, dueAtOnce
}

// setsTimer recognizes the functions of package time, and Reset of anything
// called a timer.
func setsTimer(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of := ""
	switch x := f.X.(type) {
	case *ast.Ident:
		of = x.Name
	case *ast.SelectorExpr:
		of = x.Sel.Name
	}
	switch f.Sel.Name {
	case "After", "AfterFunc", "NewTimer":
		return of == "time"
	case "Reset":
		return strings.HasSuffix(strings.ToLower(of), "timer")
	}
	return false
}

// isAhead reports whether a duration is positive for all values of its
// variables that are not negative.
func isAhead(e ast.Expr, constants map[string]bool) bool {
	ahead := func(e ast.Expr) bool { return isAhead(e, constants) }
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value != "0"
	case *ast.Ident:
		return constants[e.Name]
	case *ast.SelectorExpr:
		of, ok := e.X.(*ast.Ident)
		return ok && (of.Name == "time" || of.Name == "pure")
	case *ast.ParenExpr:
		return ahead(e.X)
	case *ast.BinaryExpr:
		switch e.Op {
		case token.ADD:
			return ahead(e.X) || ahead(e.Y)
		case token.MUL, token.QUO:
			return ahead(e.X) && ahead(e.Y)
		}
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "max" {
			for _, arg := range e.Args {
				if ahead(arg) {
					return true
				}
			}
		}
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Duration" {
			return ahead(e.Args[0])
		}
	}
	return false
}
