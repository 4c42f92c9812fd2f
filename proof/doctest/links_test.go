package doctest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	span = regexp.MustCompile("`([^`]+)`")
)

// Links within the tree lead to files, and to headings if they name one.
func TestLinksLeadSomewhere(t *testing.T) {
	all := map[string]document{}
	for _, d := range documents(t) {
		all[d.name] = d
	}
	for _, d := range all {
		for i, line := range d.prose {
			for _, found := range link.FindAllStringSubmatch(span.ReplaceAllString(line, ""), -1) {
				target := found[1]
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				file, heading, _ := strings.Cut(target, "#")
				to := d.name
				if file != "" {
					to = path.Join(path.Dir(d.name), file)
				}
				if _, err := os.Stat(filepath.Join(top, to)); err != nil {
					t.Errorf("%s:%d: %s leads nowhere", d.name, i+1, target)
				} else if heading != "" && !hasHeading(all[to], heading) {
					t.Errorf("%s:%d: %s names no heading", d.name, i+1, target)
				}
			}
		}
	}
}

// hasHeading knows how headings become anchors: lower case, without
// punctuation, with hyphens for spaces.
func hasHeading(d document, anchor string) bool {
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	return slices.ContainsFunc(d.headings(), func(title string) bool {
		return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-") == anchor
	})
}

// Make targets, packages and scripts that blocks and prose name exist, also in
// commands that are not run here.
func TestNamedThingsAreThere(t *testing.T) {
	targets := makeTargets(t)
	for _, d := range documents(t) {
		var commands []string
		for _, line := range d.prose {
			for _, found := range span.FindAllStringSubmatch(line, -1) {
				commands = append(commands, found[1])
			}
		}
		for _, b := range d.blocks {
			if b.kind == "sh" || b.kind == "console" {
				commands = append(commands, strings.Split(b.text, "\n")...)
			}
		}
		for _, command := range commands {
			for _, problem := range missing(command, targets) {
				t.Errorf("%s: %q: there is no %s", d.name, command, problem)
			}
		}
	}
}

// missing lists what a command names and the tree does not have.
func missing(command string, targets map[string]bool) (what []string) {
	command, _, _ = strings.Cut(command, " #")
	words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(command), "$ "))
	for len(words) > 0 && strings.Contains(words[0], "=") {
		words = words[1:] // settings before the command
	}
	if len(words) < 2 {
		return nil
	}
	switch words[0] {
	case "make":
		for _, word := range words[1:] {
			if !strings.Contains(word, "=") && !targets[word] {
				what = append(what, "target "+word)
			}
		}
	case "go", "sh":
		for _, word := range words[1:] {
			if name, local := strings.CutPrefix(word, "./"); (local || strings.HasSuffix(word, ".sh")) && !there(name) {
				what = append(what, word)
			}
		}
	}
	return what
}

// there reports whether the tree has a path, in the root or in a module, or the
// README writes it.
func there(name string) bool {
	name = strings.TrimSuffix(strings.TrimSuffix(name, "..."), "/")
	if name == "hello" {
		return true
	}
	for _, module := range []string{".", "bench/compare"} {
		if _, err := os.Stat(filepath.Join(top, module, name)); err == nil {
			return true
		}
	}
	return false
}

func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	targets := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^## ([a-z-]+):`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[found[1]] = true
	}
	return targets
}

func TestMissing(t *testing.T) {
	targets := map[string]bool{"test": true}
	require.Empty(t, missing("make test FOR=1s # see docs", targets))
	require.Equal(t, []string{"target tset"}, missing("CGO_ENABLED=0 make tset", targets))
	require.Equal(t, []string{"./cmd/nothing"}, missing("$ go run ./cmd/nothing -d 3s", targets))
	require.Equal(t, []string{"testdata/nothing.sh"}, missing("sh testdata/nothing.sh", targets))
	require.Empty(t, missing("go run ./cmd/loadgen -d 3s", targets))
}
