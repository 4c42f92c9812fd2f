package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A tree of one package: two files in a circle, a struct that embeds another,
// a kind with a function that branches on it, and comments with conditions.
func sample(t *testing.T) *tree {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module sample\n\ngo 1.25\n",
		"a.go": `package sample

// A kind says what is meant, if anything is.
type kind int

type inner struct{ x, y int }

type Outer struct {
	inner
	*pointed
	k kind
}

type pointed struct{ z int }

func (o *Outer) Branches() int {
	if o.k == 1 && o.x > 2 || low() {
		return 1
	}
	return 2
}
`,
		"b.go": `package sample

func low() bool { return lowest }

func (o Outer) Higher() int { return o.Branches() }
`,
		"c.go": "package sample\n\nvar lowest bool\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	t.Setenv("GOWORK", "off")
	tree, err := readTree(root, ".")
	require.NoError(t, err)
	return tree
}

func TestShapeOfATree(t *testing.T) {
	s := sample(t)
	p := s.at(".")

	between := s.between(p)
	require.Equal(t, 3, between.count(), "a uses b, b uses a and c")
	require.Equal(t, 1, between.backUp(), "one of the circle")

	n, files := s.methods(p, "Outer")
	require.Equal(t, [2]int{2, 2}, [2]int{n, files})
	written, flat := fields(p, "Outer")
	require.Equal(t, [2]int{3, 4}, [2]int{written, flat}, "what a pointer leads to is no field of its own")
	n, files = s.branchers(p, "kind")
	require.Equal(t, [2]int{1, 1}, [2]int{n, files})
	require.Equal(t, 3, exported(p), "Outer, Branches and Higher")

	words, clauses := conditions(p)
	require.Equal(t, [2]int{9, 1}, [2]int{words, clauses})
	lines, operators := s.operators(p)
	require.Equal(t, [2]int{20, 2}, [2]int{lines, operators})
}

// A tree whose rooms stand in no circle has no arrow back up, in whatever order
// they are named.
func TestShapeOfALadder(t *testing.T) {
	a := arrows{}
	for _, pair := range [][2]string{{"c", "a"}, {"a", "d"}, {"d", "b"}, {"c", "b"}} {
		a.add(pair[0], pair[1])
	}
	require.Equal(t, 4, a.count())
	require.Zero(t, a.backUp())
	a.add("b", "c")
	require.Equal(t, 1, a.backUp())
}

// What is traced still compiles, and each of its functions says where it is.
func TestTracedFunctions(t *testing.T) {
	text, err := traced("a.go", []byte("// Package a.\npackage a\n\nfunc F() {}\n\nfunc init() {}\n"))
	require.NoError(t, err)
	require.Equal(t, "// Package a.\npackage a; import \"github.com/redmux/redmux/internal/recorder\"\n\n"+
		"func F() {recorder.Enter(\"a.go\", 4);}\n\nfunc init() {}\n", string(text))
}

// The table of this tree can be made: each type and folder that it names is
// still there.
func TestShapeOfThisTree(t *testing.T) {
	rows, err := measure("../..")
	require.NoError(t, err)
	require.NotEmpty(t, rows)
}
