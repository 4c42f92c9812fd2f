package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A document is one Markdown file.
type document struct {
	name   string // from the top of the tree
	text   string
	blocks []block
	prose  []string // the lines outside of blocks; a line inside of one is "" here, so that indices are line numbers
}

// A block is the text between two fences.
type block struct {
	line int    // where it begins
	kind string // the first word behind the fence
	text string // ends with a newline
}

const top = "../.."

// documents reads all files that the tests check.
func documents(t *testing.T) []document {
	t.Helper()
	var all []document
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/internals/*.md", "bench/*.md", "testdata/*/README.md"} {
		names, err := filepath.Glob(filepath.Join(top, pattern))
		require.NoError(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			relative, err := filepath.Rel(top, name)
			require.NoError(t, err)
			all = append(all, parse(t, filepath.ToSlash(relative), string(text)))
		}
	}
	require.NotEmpty(t, all)
	return all
}

// named is the document of a name.
func named(t *testing.T, name string) document {
	t.Helper()
	all := documents(t)
	i := slices.IndexFunc(all, func(d document) bool { return d.name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return all[i]
}

// read returns a file of the tree.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, name))
	require.NoError(t, err)
	return string(text)
}

// parse finds the fenced blocks. In lists, fences and blocks are indented.
func parse(t *testing.T, name, text string) document {
	t.Helper()
	d := document{name: name, text: text}
	var open *block
	var indent string
	for i, line := range strings.Split(text, "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimLeft(line, " "), "```")
		switch {
		case open == nil && isFence:
			open = &block{line: i + 1}
			if fields := strings.Fields(fence); len(fields) > 0 {
				open.kind = fields[0]
			}
			indent = line[:strings.Index(line, "`")]
		case open != nil && isFence:
			d.blocks = append(d.blocks, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		default:
			d.prose = append(d.prose, line)
			continue
		}
		d.prose = append(d.prose, "")
	}
	require.Nil(t, open, "%s: a block does not end", name)
	return d
}

// kinds are what blocks may be.
var kinds = []string{"go", "sh", "console", "redis", "acl", "ini", "yaml", "sql", "text"}

// runByAdapters are the documents whose statements contrib/adapters runs.
var runByAdapters = []string{"docs/fencing.md", "docs/recipes.md"}

func TestBlocksAreOfAKnownKind(t *testing.T) {
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if !slices.Contains(kinds, b.kind) || b.kind == "sql" && !slices.Contains(runByAdapters, d.name) {
				t.Errorf("%s:%d: a block of kind %q, which nothing here checks", d.name, b.line, b.kind)
			}
		}
	}
}

// Indented code has no kind, so it could not be run. In lists, indented text is
// text.
func TestCodeIsFenced(t *testing.T) {
	list := regexp.MustCompile(`^\s*([-*+]|\d+\.) `)
	for _, d := range documents(t) {
		inList, blank := false, true
		for i, line := range d.prose {
			switch {
			case strings.TrimSpace(line) == "":
				blank = true
				continue
			case list.MatchString(line):
				inList = true
			case !strings.HasPrefix(line, " "):
				inList = false
			case blank && !inList && strings.HasPrefix(line, "    "):
				t.Errorf("%s:%d: code that is indented and not fenced: %s", d.name, i+1, line)
			}
			blank = false
		}
	}
}

// A table has a line for each row, and all rows have as many cells as its head:
// a row that was wrapped is shown as text.
func TestTablesAreTables(t *testing.T) {
	rule := regexp.MustCompile(`\|-+\|`)
	cells := func(row string) int { return strings.Count(strings.ReplaceAll(row, `\|`, ""), "|") }
	isRow := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "|") }
	for _, d := range documents(t) {
		for i, line := range d.prose {
			if !rule.MatchString(line) {
				continue
			}
			for j := i - 1; j == i-1 || isRow(d.prose[j]); j++ {
				if !isRow(d.prose[j]) || cells(d.prose[j]) != cells(line) {
					t.Errorf("%s:%d: no row of its table: %s", d.name, j+1, d.prose[j])
				}
			}
		}
	}
}

// TestParse checks that a block has all of its text and no more.
func TestParse(t *testing.T) {
	d := parse(t, "x.md", "a\n```go run\nb\n```\n- c\n  ```\n  d\n    e\n  ```\n")
	require.Equal(t, []block{{2, "go", "b\n"}, {6, "", "d\n  e\n"}}, d.blocks)
	require.Equal(t, "- c", d.prose[4])
}
