package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/redmux/redmux/internal/redistest"
)

// A user is a Go programmer elsewhere, with an empty module cache.
type user struct {
	ctx     context.Context
	work    string
	version string
	env     []string
}

// newUser sets up a go command that takes our modules from the folder, and all
// others from the module cache or, if that lacks them, from the usual proxy.
func newUser(ctx context.Context, work, proxy, version string) (*user, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	cache, usual, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	sources := fileURL(proxy) + "," + fileURL(filepath.Join(cache, "cache", "download"))
	if usual != "" {
		sources += "," + usual
	}
	return &user{ctx: ctx, work: work, version: version, env: append(os.Environ(),
		"GOPROXY="+sources,
		"GOPRIVATE=", "GONOPROXY=", "GONOSUMDB="+root+","+root+"/*", // no checksum database has these
		"GOMODCACHE="+filepath.Join(work, "cache"), "GOFLAGS=-modcacherw -trimpath", "GOWORK=off",
		"GOBIN="+filepath.Join(work, "bin"),
	)}, nil
}

func fileURL(dir string) string {
	dir = filepath.ToSlash(dir)
	if !strings.HasPrefix(dir, "/") {
		dir = "/" + dir // of Windows
	}
	return "file://" + dir
}

// do runs a command in a folder and returns its output.
func (u *user) do(dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(u.ctx, name, args...)
	cmd.Dir, cmd.Env = dir, u.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// module makes a module with one file.
func (u *user) module(name, source string) (dir string, err error) {
	dir = filepath.Join(u.work, "users", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if _, err := u.do(dir, "go", "mod", "init", "example.com/"+name); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644)
}

// useAll uses each module as it is meant to be used.
func (u *user) useAll(tree string, modules []released) error {
	for _, name := range []string{"redlock", "loadgen"} {
		if err := u.installs(name); err != nil {
			return err
		}
	}
	if err := u.readme(tree); err != nil { // which opens its deployment with redlock
		return err
	}
	for _, m := range modules {
		if strings.HasPrefix(m.path, root+"/contrib/") {
			if err := u.imports(m.path); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayReach are the modules in the build list of a program that imports redlock:
// what the library, bench and their tests need.
var mayReach = map[string]bool{
	root: true, "github.com/valyala/bytebufferpool": true, "github.com/redis/rueidis": true,
	"github.com/stretchr/testify": true, "github.com/davecgh/go-spew": true, "github.com/pmezard/go-difflib": true,
	"gopkg.in/yaml.v3": true, "golang.org/x/sys": true,
	"github.com/yuin/gopher-lua": true, // which runs the scripts for redlocktest
}

var (
	program = regexp.MustCompile("(?s)```go\n(// \\S+\\.go\npackage main\n.*?)```")
	address = regexp.MustCompile(`(127\.0\.0\.1|localhost):\d+`)
)

// readme builds the README's program with the released root, and runs it on
// masters of its own.
func (u *user) readme(tree string) error {
	text, err := os.ReadFile(filepath.Join(tree, "README.md"))
	if err != nil {
		return err
	}
	found := program.FindSubmatch(text)
	if found == nil {
		return errors.New("README.md has no program")
	}
	source := string(found[1])
	servers, missing := redistest.StartN(len(address.FindAllString(source, -1)), redistest.Options{TCP: true})
	if missing != nil && !errors.Is(missing, redistest.ErrNoServer) {
		return missing
	}
	next := 0
	if missing == nil {
		source = address.ReplaceAllStringFunc(source, func(string) string {
			next++
			return servers[next-1].TCPAddr()
		})
	}
	for _, s := range servers {
		defer s.Close()
	}
	dir, err := u.module("readme", source)
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"get", root + "/redlock@" + u.version}, {"build", "."}} {
		if _, err := u.do(dir, "go", args...); err != nil {
			return err
		}
	}
	list, err := u.do(dir, "go", "list", "-m", "-f", "{{if not .Main}}{{.Path}}{{end}}", "all")
	if err != nil {
		return err
	}
	for _, path := range strings.Fields(list) {
		if !mayReach[path] {
			return fmt.Errorf("a program that imports redlock has %s in its build list", path)
		}
	}
	if missing != nil {
		fmt.Printf("%s: the README's program builds. NOT COVERED: that it runs, %v\n", root, missing)
		return nil
	}
	if err := u.init(dir, servers); err != nil {
		return err
	}
	out, err := u.do(dir, filepath.Join(dir, executable("readme")))
	if err != nil {
		return err
	}
	fmt.Printf("%s: the README's program builds and runs: %q\n", root, out)
	return nil
}

// init opens the deployment as the README does, with the installed command.
func (u *user) init(dir string, servers []*redistest.Server) error {
	var urls []string
	for _, s := range servers {
		urls = append(urls, "redis://"+s.TCPAddr())
	}
	_, err := u.do(dir, filepath.Join(u.work, "bin", executable("redlock")), "init", "--nodes", strings.Join(urls, ","))
	return err
}

// imports gets a module and builds a program that imports its package.
func (u *user) imports(module string) error {
	name := path.Base(module)
	dir, err := u.module(name, "package main\n\nimport _ \""+module+"\"\n\nfunc main() {}\n")
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"get", module + "@" + u.version}, {"mod", "tidy"}, {"build", "./..."}} {
		if _, err := u.do(dir, "go", args...); err != nil {
			return err
		}
	}
	fmt.Printf("%s: an outside module builds with it\n", module)
	return nil
}

// installs installs a command and asks it for help.
func (u *user) installs(name string) error {
	if _, err := u.do(u.work, "go", "install", root+"/cmd/"+name+"@"+u.version); err != nil {
		return err
	}
	if _, err := u.do(u.work, filepath.Join(u.work, "bin", executable(name)), "--help"); err != nil {
		return err
	}
	fmt.Printf("%s/cmd/%s: go install makes a program that runs\n", root, name)
	return nil
}

func executable(name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return name
}
