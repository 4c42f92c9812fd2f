//go:build unix

package doctest

import (
	"fmt"
	"go/format"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// given declares what a fragment takes for granted. A fragment that needs more
// declares it itself.
const given = `
	ctx context.Context, t *testing.T, client *redlock.Client, lock redlock.Lock, config redlock.Config,
	work func(context.Context), build func(context.Context) error, pay func(context.Context, uint64) error,
`

// imports are the packages that fragments may name.
var imports = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "log": "log", "slog": "log/slog", "net": "net", "os": "os",
	"io": "io", "json": "encoding/json", "sql": "database/sql", "strconv": "strconv", "strings": "strings",
	"fencing": "github.com/redmux/redmux/contrib/fencing", "httplock": "github.com/redmux/redmux/contrib/httplock",
	"aws": "github.com/aws/aws-sdk-go-v2/aws", "v4": "github.com/aws/aws-sdk-go-v2/aws/signer/v4", "conn": "github.com/redmux/redmux/conn",
	"asynq": "github.com/hibiken/asynq", "cron": "github.com/robfig/cron/v3", "rueidis": "github.com/redis/rueidis",
	"testing": "testing", "time": "time", "tls": "crypto/tls", "http": "net/http", "synctest": "testing/synctest", "url": "net/url",
	"multiplex": "github.com/redmux/redmux/multiplex", "redlock": "github.com/redmux/redmux/redlock",
	"admin": "github.com/redmux/redmux/redlock/admin", "election": "github.com/redmux/redmux/redlock/election",
	"redlocktest": "github.com/redmux/redmux/redlocktest",
	"redsync":     "github.com/go-redsync/redsync/v4", "goredis": "github.com/go-redsync/redsync/v4/redis/goredis/v9",
	"redislock": "github.com/bsm/redislock", "redis": "github.com/redis/go-redis/v9",
}

// elsewhere are packages that only another module knows.
var elsewhere = map[string]*regexp.Regexp{
	"bench/compare":    regexp.MustCompile(`\b(redsync|goredis|redislock|redis)\.`),
	"contrib/adapters": regexp.MustCompile(`\b(asynq|aws|cron)\.[A-Z]`),
}

// TestFragmentsCompile compiles each Go block that is not a whole file, as the
// body of a function, or as declarations if it has some, and runs tests. Blocks
// about other libraries are compiled in the module that requires these.
func TestFragmentsCompile(t *testing.T) {
	t.Parallel()
	sources := map[string]map[string]string{} // by the module's folder, "" for the root
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.kind != "go" || strings.HasPrefix(b.text, "// ") && strings.HasSuffix(firstLine(b.text), ".go") {
				continue
			}
			module := ""
			for folder, packages := range elsewhere {
				if packages.MatchString(b.text) {
					module = folder
				}
			}
			name := fmt.Sprintf("%s_%d", regexp.MustCompile(`\W`).ReplaceAllString(d.name, "_"), b.line)
			if sources[module] == nil {
				sources[module] = map[string]string{}
			}
			sources[module][name] = fragment(t, name, b.text)
		}
	}
	for module, files := range sources {
		dir := filepath.Join(copied(t), module)
		list := exec.Command("go", "list", "-m")
		list.Dir = dir
		if out, err := list.CombinedOutput(); err != nil {
			t.Logf("NOT COVERED: %d blocks about libraries of %s, which need a newer Go: %s", len(files), module, out)
			continue
		}
		compile(t, dir, files)
	}
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

// fragment makes a file from a block.
func fragment(t *testing.T, name, text string) string {
	t.Helper()
	formatted, err := format.Source([]byte(text))
	require.NoError(t, err, name)
	require.Equal(t, string(formatted), text, "%s is not gofmt-ed", name)
	used := map[string]string{"context": "context", "testing": "testing", "redlock": imports["redlock"]}
	for short, path := range imports {
		if regexp.MustCompile(`\b` + short + `\.`).MatchString(text) {
			used[short] = path
		}
	}
	var b strings.Builder
	b.WriteString("package fragments\n\nimport (\n")
	for _, short := range slices.Sorted(maps.Keys(used)) {
		fmt.Fprintf(&b, "\t%s %q\n", short, used[short])
	}
	b.WriteString(")\n\n")
	if regexp.MustCompile(`(?m)^(func|type|var|const) `).MatchString(text) {
		// What every file imports is used by the declaration below.
		fmt.Fprintf(&b, "%s\nfunc %s(%s) {}\n", text, name, given)
	} else {
		// In a block of its own, what a fragment declares may hide what is
		// given.
		fmt.Fprintf(&b, "func %s(%s) (failed error) {\n{\n%s}\nreturn\n}\n", name, given, text)
	}
	return b.String()
}

// compile builds a package of these files within the copy of a module.
func compile(t *testing.T, module string, sources map[string]string) {
	t.Helper()
	dir := filepath.Join(module, "internal", "fragments")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	commands := []string{"build"}
	for name, source := range sources {
		if strings.Contains(source, "\nfunc Test") {
			name, commands = name+"_test", []string{"build", "test"}
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".go"), []byte(source), 0o644))
	}
	for _, command := range commands {
		cmd := exec.Command("go", command, "./internal/fragments")
		cmd.Dir = module
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
