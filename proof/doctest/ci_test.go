//go:build unix

package doctest

import (
	"bytes"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/redmux/redmux/internal/redistest"
)

// A workflow is .github/workflows/ci.yml, as far as these tests need it.
type workflow struct {
	Jobs map[string]struct {
		If    string `yaml:"if"`
		Steps []struct {
			Run string `yaml:"run"`
			If  string `yaml:"if"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

// notInCI are the targets that .ci/run does not run, each with the reason.
var notInCI = map[string]string{
	"help": "lists the targets",
}

// The workflow and .ci/run agree: the workflow runs all of .ci/run on each
// event, that runs make test and make check, and each target of the Makefile is
// a part of these, or is listed.
func TestWorkflowRunsWhatCheckRuns(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	targets := makeTargets(t)
	var flow workflow
	require.NoError(t, yaml.Unmarshal([]byte(read(t, ".github/workflows/ci.yml")), &flow))
	require.NotEmpty(t, flow.Jobs)
	whole := false
	for name, job := range flow.Jobs {
		for _, step := range job.Steps {
			for _, command := range strings.Split(step.Run, "\n") {
				require.Empty(t, missing(command, targets), "job %s: %q", name, command)
				for _, script := range regexp.MustCompile(`\S+\.sh\b|\./\.ci/\S+`).FindAllString(command, -1) {
					require.FileExists(t, filepath.Join(top, script), "job %s", name)
				}
				whole = whole || strings.HasSuffix(command, "./.ci/run") && job.If == "" && step.If == ""
			}
		}
	}
	require.True(t, whole, "no job runs .ci/run on each event")

	parts := map[string]bool{}
	for _, found := range made.FindAllStringSubmatch(read(t, ".ci/run"), -1) {
		addParts(parts, makefile, found[1])
	}
	require.True(t, parts["test"] && parts["check"], ".ci/run runs %v", parts)
	for target := range targets {
		_, listed := notInCI[target]
		require.NotEqual(t, listed, parts[target], "make %s: listed here, or a part of .ci/run", target)
	}
	for target := range notInCI {
		require.Contains(t, targets, target)
	}
}

// A test that says that it runs alone or long does so in its first lines, by
// which testdata/marked.sh finds it.
func TestMarksAreWhereTheyAreLookedFor(t *testing.T) {
	t.Parallel()
	marked := map[string]int{}
	for _, kind := range []string{"alone", "long"} {
		out, err := exec.Command("sh", filepath.Join(top, "testdata/marked.sh"), kind).Output()
		require.NoError(t, err)
		for _, name := range strings.Split(strings.Trim(strings.TrimSpace(string(out)), "^()$"), "|") {
			marked[name]++
		}
	}
	lines := regexp.MustCompile(`^\tredistest\.(Alone|Long)\(t\)$`)
	found := map[string]bool{}
	require.NoError(t, filepath.WalkDir(top, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		above := ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case lines.MatchString(line):
				if name, ok := strings.CutPrefix(above, "func "); ok {
					above = line
					found[name[:strings.Index(name, "(")]] = true
				} else {
					require.Regexp(t, lines, above, "%s: %s is not a test's first line", path, line)
				}
			default:
				require.NotRegexp(t, `^\s*redistest\.(Alone|Long)\(`, line, path)
			}
			above = line
		}
		return err
	}))
	require.NotEmpty(t, found)
	for name := range found {
		require.Equal(t, 1, marked[name], name)
	}
	require.Len(t, marked, len(found))
}

// made finds what make is told to make, also by a recipe.
var made = regexp.MustCompile(`(?m)(?:\bmake|\$\(MAKE\)) ([a-z-]+)`)

// addParts adds a target of a makefile, what it needs and what its recipe makes.
func addParts(parts map[string]bool, makefile, target string) {
	if parts[target] {
		return
	}
	parts[target] = true
	rule := regexp.MustCompile(`(?m)^` + target + `:(.*)\n((?:\t.*\n)*)`).FindStringSubmatch(makefile)
	if rule == nil {
		return
	}
	for _, needed := range strings.Fields(rule[1]) {
		addParts(parts, makefile, needed)
	}
	for _, found := range made.FindAllStringSubmatch(rule[2], -1) {
		addParts(parts, makefile, found[1])
	}
}

func TestAddParts(t *testing.T) {
	t.Parallel()
	parts := map[string]bool{}
	addParts(parts, "a: b c\n\t@$(MAKE) d X=1\n\tmodel\nb:\n\nc: b\nd: e\ne:\nf: a\n", "a")
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, slices.Sorted(maps.Keys(parts)))
}

// The image is built from a package that exists, by a Go that is new enough, and
// nothing that it needs is kept from it.
func TestDockerfileBuildsWhatIsThere(t *testing.T) {
	t.Parallel()
	dockerfile := read(t, "Dockerfile")
	built := regexp.MustCompile(`go build .* (\./\S+)`).FindStringSubmatch(dockerfile)
	require.NotNil(t, built, "no package is built")
	list := exec.Command("go", "list", "-f", "{{.Name}}", built[1])
	list.Dir = top
	out, err := list.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "main\n", string(out), built[1])

	image := regexp.MustCompile(`FROM golang:(\S+)`).FindStringSubmatch(dockerfile)
	require.NotNil(t, image)
	wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.work"))
	require.NotNil(t, wanted)
	require.GreaterOrEqual(t, image[1], wanted[1], "the image's Go, and go.work's")

	list = exec.Command("go", "list", "-deps", "-f",
		"{{if not .Standard}}{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}\n{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}\n{{end}}{{end}}", built[1])
	list.Dir = top
	out, err = list.Output()
	require.NoError(t, err)
	needed := strings.Fields(string(out))
	for _, found := range regexp.MustCompile(`(?m)^\s+(?:use )?(\./?\S*)$`).FindAllStringSubmatch(read(t, "go.work"), -1) {
		needed = append(needed, filepath.Join(top, found[1], "go.mod"))
	}
	root, err := filepath.Abs(top)
	require.NoError(t, err)
	ours := 0
	for _, name := range needed {
		name, err := filepath.Abs(name)
		require.NoError(t, err)
		name, inTree := strings.CutPrefix(name, root+"/")
		if !inTree {
			continue // of another module
		}
		ours++
		for _, pattern := range strings.Fields(read(t, ".dockerignore")) {
			if ignored(pattern, name) {
				t.Errorf(".dockerignore keeps %s from the image, by %s", name, pattern)
			}
		}
	}
	require.Greater(t, ours, 100)
}

// ignored reports whether a pattern of a .dockerignore file is for a file: a
// folder at the top, or "**/" and a base name.
func ignored(pattern, name string) bool {
	if base, anywhere := strings.CutPrefix(pattern, "**/"); anywhere {
		matches, _ := path.Match(base, path.Base(name))
		return matches
	}
	return name == pattern || strings.HasPrefix(name, pattern+"/")
}

func TestIgnored(t *testing.T) {
	t.Parallel()
	require.True(t, ignored("**/*.md", "docs/a.md"))
	require.True(t, ignored("bench/compare", "bench/compare/go.mod"))
	require.False(t, ignored("bench/compare", "bench/compared.go"))
	require.False(t, ignored("**/*_test.go", "redlock/test.go"))
}

// compose.yaml starts the masters of the README, at the ports of its program, by
// commands that a server takes; and the command line, with those masters.
func TestComposeStartsTheMastersOfTheREADME(t *testing.T) {
	redistest.Require(t)
	t.Parallel()
	decoder := yaml.NewDecoder(bytes.NewReader([]byte(read(t, "compose.yaml"))))
	decoder.KnownFields(true)
	var compose composeFile
	require.NoError(t, decoder.Decode(&compose))

	var masters, listening, published []string
	for name, service := range compose.Services {
		if name == "network" {
			for _, port := range service.Ports {
				found := regexp.MustCompile(`^127\.0\.0\.1:(\d+):(\d+)$`).FindStringSubmatch(port)
				require.NotNil(t, found, "%s: %s", name, port)
				require.Equal(t, found[1], found[2], "a master has one port, inside and outside")
				published = append(published, found[1])
			}
			continue
		}
		require.Equal(t, "service:network", service.NetworkMode, "%s: a master has one name, inside and outside", name)
		if service.Build != "" {
			require.FileExists(t, filepath.Join(top, service.Build, "Dockerfile"))
			continue
		}
		masters = append(masters, name)
		require.Contains(t, []string{"redis-server", "valkey-server"}, service.Command[0], name)
		args := append(service.Command[1:len(service.Command):len(service.Command)], "--dir", t.TempDir())
		require.Equal(t, "--port", args[0], name)
		listening = append(listening, args[1])
		server, err := redistest.Start(redistest.Options{Args: args[2:]})
		require.NoError(t, err, name)
		require.NoError(t, server.Close())
	}
	slices.Sort(listening)
	slices.Sort(masters)
	slices.Sort(published)
	documented := documentedPort.FindAllString(read(t, "README.md"), -1)
	slices.Sort(documented)
	require.Equal(t, slices.Compact(documented), published)
	require.Equal(t, listening, published)

	redlock := compose.Services["redlock"]
	var named []string
	for _, node := range strings.Split(redlock.Environment["REDLOCK_NODES"], ",") {
		at, err := url.Parse(node)
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1", at.Hostname())
		named = append(named, at.Port())
	}
	require.Equal(t, published, named)
	require.ElementsMatch(t, masters, redlock.DependsOn)
}
