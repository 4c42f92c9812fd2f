package doctest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/redlock"
)

// A source is a Go file. Its comments stand in single lines, so that what is
// broken across lines can be found.
type source struct {
	name string // from the top of the tree
	text string
}

var brokenComment = regexp.MustCompile(`\n[ \t]*// ?`)

// sources returns all Go files of the tree.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := readSources()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

var readSources = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") && name != top {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(top, name)
		all = append(all, source{filepath.ToSlash(relative), brokenComment.ReplaceAllString(string(text), " ")})
		return err
	})
	return all, err
})

// citation is a document that a comment names, with a section in quotes where
// there is one, and a number behind it where there should be none.
var citation = regexp.MustCompile(`\bdocs/((?:internals/)?[a-z]+\.md)\b(?:, "([^"]+)")?(, \d+)?`)

// Comments cite documents that are there, and sections by their headings. The
// design is long, so only package comments cite it without a section.
func TestCitationsLeadSomewhere(t *testing.T) {
	t.Parallel()
	headings := map[string][]string{}
	for _, d := range documents(t) {
		headings[d.name] = d.headings()
	}
	cited := 0
	for _, s := range sources(t) {
		if path.Dir(s.name) == "proof/doctest" {
			continue
		}
		for _, found := range citation.FindAllStringSubmatch(s.text, -1) {
			document, section, number := "docs/"+found[1], found[2], found[3]
			switch titles, known := headings[document]; {
			case !known:
				t.Errorf("%s: there is no %s", s.name, document)
			case section == "" && document == "docs/internals/design.md" && path.Base(s.name) != "doc.go":
				t.Errorf("%s: %s is cited without a section", s.name, document)
			case section != "" && !slices.Contains(titles, section):
				t.Errorf("%s: %s has no section %q", s.name, document, section)
			case number != "":
				t.Errorf("%s: %s, %q is cited by number%s", s.name, document, section, number)
			case section != "":
				cited++
			}
		}
	}
	require.NotZero(t, cited)
}

// headings are the titles of all sections.
func (d document) headings() (all []string) {
	for _, line := range d.prose {
		hashes, title, found := strings.Cut(line, " ")
		if found && hashes != "" && strings.Trim(hashes, "#") == "" {
			all = append(all, title)
		}
	}
	return all
}

// Each rule that a comment, a test's name or a document cites is in
// docs/internals/rules.md.
func TestRulesAreWritten(t *testing.T) {
	t.Parallel()
	rules := named(t, "docs/internals/rules.md").headings()
	check := func(name, text string) {
		for _, found := range regexp.MustCompile(`(?:\b|_)(R[1-9][0-9]?)\b`).FindAllStringSubmatch(text, -1) {
			if !slices.Contains(rules, found[1]) {
				t.Errorf("%s: docs/internals/rules.md has no %s", name, found[1])
			}
		}
	}
	for _, d := range documents(t) {
		check(d.name, d.text)
	}
	for _, s := range sources(t) {
		check(s.name, s.text)
	}
}

var (
	goFile = regexp.MustCompile(`^[\w./*-]+\.go$`)
	// packageName is a name of one of our packages, with a member or without,
	// and memberName what an important type of redlock has.
	packageName = regexp.MustCompile(`^(resp|conn|multiplex|redlock|pure|redlocktest|admin|election)\.([A-Za-z]\w*)(?:\.(\w+))?(?:\(.*\))?$`)
	memberName  = regexp.MustCompile(`^(?:Config|HoldOptions|Allow|Stats|Client|Hold|Lock|Token|client)\.([A-Z]\w*)(?:\(.*\))?$`)
)

// packages are where packageName's packages are.
var packages = map[string]string{
	"resp": "resp", "conn": "conn", "multiplex": "multiplex", "redlock": "redlock", "pure": "internal/pure",
	"redlocktest": "redlocktest", "admin": "redlock/admin", "election": "redlock/election",
}

// Go files and names of our packages that documents put in code spans exist.
func TestNamedCodeIsThere(t *testing.T) {
	t.Parallel()
	files := map[string]bool{}
	for _, s := range sources(t) {
		files[path.Base(s.name)] = true
	}
	names := map[string]map[string]bool{}
	for pkg, dir := range packages {
		names[pkg] = declared(t, filepath.Join(top, dir))
	}
	for _, d := range documents(t) {
		for i, line := range d.prose {
			for _, found := range span.FindAllStringSubmatch(line, -1) {
				text, known := found[1], true
				if goFile.MatchString(text) {
					known = files[text]
					for _, dir := range []string{"", path.Dir(d.name)} {
						matches, err := filepath.Glob(filepath.Join(top, dir, text))
						require.NoError(t, err)
						known = known || len(matches) > 0
					}
				} else if m := packageName.FindStringSubmatch(text); m != nil {
					known = names[m[1]][m[2]] && (m[3] == "" || names[m[1]][m[3]])
				} else if m := memberName.FindStringSubmatch(text); m != nil {
					known = names["redlock"][m[1]] || strings.HasPrefix(text, "Allow.") && names["multiplex"][m[1]]
				}
				if !known {
					t.Errorf("%s:%d: there is no %s", d.name, i+1, text)
				}
			}
		}
	}
}

// declared returns what a package declares: functions, methods, types, fields,
// constants and variables.
func declared(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	all, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, name := range all {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
				return false
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.Field:
				addNames(names, n.Names)
			case *ast.ValueSpec:
				addNames(names, n.Names)
			}
			return true
		})
	}
	return names
}

func addNames(names map[string]bool, of []*ast.Ident) {
	for _, name := range of {
		names[name.Name] = true
	}
}

// riddles are words that say "a person" where the text is about a thing.
var riddles = regexp.MustCompile(`(?i)\b(whoever|somebody|nobody|anybody|everybody|who does|for who|of whom)\b`)

// Documents are about things, and wrap at 120 columns, but for tables and what
// cannot be broken.
func TestDocumentsArePlain(t *testing.T) {
	t.Parallel()
	for _, d := range documents(t) {
		for i, line := range d.prose {
			if word := riddles.FindString(line); word != "" {
				t.Errorf("%s:%d: %q", d.name, i+1, word)
			}
			if columns := utf8.RuneCountInString(line); columns > 120 && breakable(line) {
				t.Errorf("%s:%d: %d columns", d.name, i+1, columns)
			}
		}
	}
}

// narrow are the packages of the library, whose comments end at column 80.
var narrow = []string{
	"conn", "conn/internal/locate", "internal/errtext", "internal/lua", "internal/pure", "multiplex",
	"multiplex/internal/member", "redlock", "redlock/admin", "redlock/election", "redlock/internal/inside",
	"redlock/internal/kind", "redlock/internal/trial", "redlock/internal/wire", "redlocktest", "resp",
}

// Comments of the code keep to the same words. Those of the library and of its Lua
// programs end at column 80, where a tab is one column; behind code too, except in
// tests. Directives to the compiler and what an example prints cannot be broken.
func TestCommentsArePlainAndNarrow(t *testing.T) {
	t.Parallel()
	width := func(place, line string) {
		if columns := utf8.RuneCountInString(line); columns > 80 {
			t.Errorf("%s: a comment ends in column %d", place, columns)
		}
	}
	for _, s := range sources(t) {
		text := read(t, s.name)
		lines, files := strings.Split(text, "\n"), token.NewFileSet()
		file, err := parser.ParseFile(files, s.name, text, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, group := range file.Comments {
			for _, c := range group.List {
				place := files.Position(c.Pos())
				if word := riddles.FindString(c.Text); word != "" {
					t.Errorf("%s: %q", place, word)
				}
				line := lines[place.Line-1]
				alone := strings.HasPrefix(strings.TrimSpace(line), "//")
				if slices.Contains(narrow, path.Dir(s.name)) && !strings.HasPrefix(group.Text(), "Output:") &&
					!strings.HasPrefix(c.Text, "//go:") && (alone || !strings.HasSuffix(s.name, "_test.go")) {
					width(place.String(), line)
				}
			}
		}
	}
	programs, err := filepath.Glob(filepath.Join(top, "internal/lua/*.lua"))
	require.NoError(t, err)
	require.NotEmpty(t, programs)
	for _, name := range programs {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			if strings.Contains(line, "--") {
				width(fmt.Sprintf("%s:%d", path.Base(name), i+1), line)
			}
		}
	}
}

// The overview of Config, in the guide, names every field.
func TestConfigOverviewIsWhole(t *testing.T) {
	t.Parallel()
	_, overview, found := strings.Cut(named(t, "docs/guide.md").text, "\n## Configuration\n")
	require.True(t, found)
	overview, _, _ = strings.Cut(overview, "\n## ")
	for _, field := range reflect.VisibleFields(reflect.TypeFor[redlock.Config]()) {
		if !strings.Contains(overview, "`"+field.Name+"`") {
			t.Errorf("the overview of redlock.Config in docs/guide.md does not name %s", field.Name)
		}
	}
}

// breakable reports that a line has a space at which it could have been broken:
// not in a table, an image, a comment or a code span.
func breakable(line string) bool {
	text := strings.TrimSpace(line)
	for _, whole := range []string{"|", "!", "<!--"} {
		if strings.HasPrefix(text, whole) {
			return false
		}
	}
	return strings.Contains(span.ReplaceAllString(strings.TrimPrefix(text, "- "), "``"), " ")
}
