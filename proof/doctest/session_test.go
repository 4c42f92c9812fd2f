//go:build unix

package doctest

import (
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/internal/redistest"
)

// TestDocuments does all that each document tells its reader to do.
func TestDocuments(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	for _, d := range documents(t) {
		if len(d.blocks) == 0 {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel() // each has ports and folders of its own
			redistest.Require(t)
			s := newSession(t)
			for _, b := range d.blocks {
				s.do(t, d, b)
			}
		})
	}
}

// do runs one block. Blocks of a document build on each other, so the first
// that fails ends it.
func (s *session) do(t *testing.T, d document, b block) {
	t.Helper()
	where := fmt.Sprintf("%s:%d", d.name, b.line)
	switch b.kind {
	case "go":
		s.goFile(t, where, b.text)
	case "sh":
		s.shell(t, where, b.text)
	case "console":
		s.console(t, where, b.text)
	case "redis":
		s.configuration(t, where, b.text)
	case "acl":
		s.rule(t, where, b.text)
	case "ini":
		s.unit(t, where, b.text)
	case "yaml":
		s.yaml(t, where, b.text)
	}
}

// A session is what the blocks of one document share.
type session struct {
	etc   string            // stands for /etc/redis
	units string            // stands for /etc/systemd/system
	bin   string            // first on PATH: the server that tests use, by its usual names, and what go install made
	env   []string          // what was exported
	ports map[string]string // the documents' to free ones
	acl   []string          // the words of the last whole rule
}

// commandTimeout bounds one block. Some build what they run, beside other
// tests.
const commandTimeout = 4 * time.Minute

func newSession(t *testing.T) *session {
	t.Helper()
	dir := t.TempDir()
	s := &session{
		etc: filepath.Join(dir, "etc"), bin: filepath.Join(dir, "bin"),
		units: filepath.Join(dir, "units"), ports: map[string]string{},
	}
	t.Cleanup(func() { s.ended(t) }) // after those that end the processes
	for _, sub := range []string{s.etc, s.bin, s.units} {
		require.NoError(t, os.Mkdir(sub, 0o755))
	}
	server, _ := redistest.Find()
	server, err := exec.LookPath(server)
	require.NoError(t, err)
	server, err = filepath.Abs(server)
	require.NoError(t, err)
	// A script, not a link: a server may be a script that looks at its own
	// place.
	script := fmt.Sprintf("#!/bin/sh\nexec %q \"$@\"\n", server)
	require.NoError(t, os.WriteFile(filepath.Join(s.bin, "redis-server"), []byte(script), 0o755))
	return s
}

// tree is a copy of the repository. All sessions share it, so that each package
// is built once.
var tree = sync.OnceValues(func() (string, error) {
	dir, err := treeDir()
	if err != nil {
		return "", err
	}
	treeMade = dir
	return dir, copyTree(top, dir)
})

// treeMade is where the copy is, if a test asked for it.
var treeMade string

// treeLock is held while the copy is at its usual place.
var treeLock *os.File

// treeDir makes an empty folder for the copy. It is at the same place in each
// run, since the build cache distinguishes packages by their folder; if another
// run uses that place, it is a temporary folder.
func treeDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return os.MkdirTemp("", "redmux-doctest")
	}
	dir := filepath.Join(cache, "redmux", "doctest")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return os.MkdirTemp("", "redmux-doctest")
	}
	treeLock, err = os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil || syscall.Flock(int(treeLock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return os.MkdirTemp("", "redmux-doctest")
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Mkdir(dir, 0o755)
}

func TestMain(m *testing.M) {
	code := m.Run()
	if treeMade != "" {
		_ = os.RemoveAll(treeMade)
	}
	os.Exit(code)
}

// copied returns the folder of the copy.
func copied(t *testing.T) string {
	t.Helper()
	dir, err := tree()
	require.NoError(t, err)
	return dir
}

// copyTree leaves out hidden files, binaries, and the planted bugs.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil || relative == "." {
			return err
		}
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin" {
				return fs.SkipDir
			}
			return os.Mkdir(filepath.Join(to, relative), 0o755)
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, relative), text, 0o644)
	})
}

var documentedPort = regexp.MustCompile(`\b700[1-9]\b`)

// local replaces the ports and folders of the documents by those of this
// session.
func (s *session) local(t *testing.T, text string) string {
	text = strings.ReplaceAll(text, "/etc/redis", s.etc)
	return documentedPort.ReplaceAllStringFunc(text, func(port string) string {
		if s.ports[port] == "" {
			s.ports[port] = s.freePort(t)
		}
		return s.ports[port]
	})
}

// freePort returns a port that stays free until it is used, which may be after
// a build.
func (s *session) freePort(t *testing.T) string {
	t.Helper()
	port, err := redistest.FreePort()
	require.NoError(t, err)
	return fmt.Sprint(port)
}

// goFile writes a file that names its path in the first line; a later command
// runs it. All other Go blocks are for fragments_test.go.
func (s *session) goFile(t *testing.T, where, text string) {
	t.Helper()
	first, _, _ := strings.Cut(text, "\n")
	name, isFile := strings.CutPrefix(first, "// ")
	if !isFile || !strings.HasSuffix(name, ".go") {
		return
	}
	formatted, err := format.Source([]byte(text))
	require.NoError(t, err, where)
	require.Equal(t, string(formatted), text, "%s is not gofmt-ed", where)
	name = filepath.Join(copied(t), filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(s.local(t, text)), 0o644))
}

// shell runs a block, without the lines of notRun. Servers that it starts
// answer when it returns.
func (s *session) shell(t *testing.T, where, text string) {
	t.Helper()
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if _, known := notRun[bare(line)]; !known {
			lines = append(lines, line)
		}
	}
	script := s.local(t, strings.Join(lines, "\n"))
	if strings.TrimSpace(script) == "" {
		return
	}
	output, err := s.run(t, script)
	require.NoError(t, err, "%s:\n%s\n%s", where, script, output)
	if strings.Contains(script, "redis-server") {
		for documented, port := range s.ports {
			if strings.Contains(text, documented) {
				s.answers(t, where, port)
			}
		}
	}
}

// bare returns a command without its remark.
func bare(line string) string {
	line, _, _ = strings.Cut(line, " #")
	return strings.TrimSpace(line)
}

// console runs the commands after "$ " and compares what they print.
func (s *session) console(t *testing.T, where, text string) {
	t.Helper()
	for _, part := range strings.Split("\n"+text, "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		if settings, exports := strings.CutPrefix(command, "export "); exports {
			s.env = append(s.env, strings.Fields(s.local(t, settings))...) // for the commands that follow
			continue
		}
		output, err := s.run(t, s.local(t, command))
		require.NoError(t, err, "%s: %s\n%s", where, command, output)
		require.Regexp(t, expected(want), strings.TrimSpace(output), "%s: %s", where, command)
	}
}

// expected returns a regular expression for an output in which … stands for
// anything.
func expected(want string) string {
	lines := regexp.QuoteMeta(strings.TrimSpace(want))
	return "(?s)^" + strings.ReplaceAll(lines, "…", ".*") + "$"
}

// run passes a script to sh. What the script leaves running ends with the test.
// The output goes to a file: a server in the background would keep a pipe open.
func (s *session) run(t *testing.T, script string) (output string, err error) {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "output")
	require.NoError(t, err)
	defer file.Close()
	cmd := exec.Command("sh", "-eu", "-c", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = copied(t), file, file
	cmd.Env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"), "GOBIN="+s.bin, "NO_COLOR=1", "GOFLAGS=-buildvcs=false")
	cmd.Env = append(cmd.Env, "REDLOCK_TIMEOUT=30s") // a busy machine may take longer than its default
	cmd.Env = append(cmd.Env, s.env...)
	require.NoError(t, redistest.Spawn(cmd))
	// The group outlives sh only if the script left processes in the
	// background. Its number is not reused before.
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	timeout := time.AfterFunc(commandTimeout, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timeout.Stop()
	err = cmd.Wait()
	text, readErr := os.ReadFile(file.Name())
	return string(text), errors.Join(err, readErr)
}

// ended waits until the session's servers no longer listen. Their parent is
// init by then, so the test cannot wait for the processes.
func (s *session) ended(t *testing.T) {
	t.Helper()
	for _, port := range s.ports {
		closed := func() bool {
			c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
			if err == nil {
				_ = c.Close()
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		}
		require.Eventually(t, closed, time.Minute, 10*time.Millisecond, "a server on port %s does not end", port)
	}
}

// answers waits until a server listens and answers.
func (s *session) answers(t *testing.T, where, port string) {
	t.Helper()
	ok := func() bool {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = c.Write([]byte("PING\r\n"))
		n, _ := c.Read(make([]byte, 1))
		return n == 1
	}
	require.Eventually(t, ok, time.Minute, 10*time.Millisecond, "%s: no server answers on port %s", where, port)
}

// Each command of notRun is in some document; otherwise its reason is out of
// date.
func TestNotRunIsUpToDate(t *testing.T) {
	var all []string
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			for _, line := range strings.Split(b.text, "\n") {
				all = append(all, bare(line))
			}
		}
	}
	for command := range notRun {
		if !slices.Contains(all, command) {
			t.Errorf("%q stands nowhere any more", command)
		}
	}
}

func TestExpected(t *testing.T) {
	require.Regexp(t, expected("a … c\n"), "a b\n c")
	require.NotRegexp(t, expected("a … c"), "a b c d")
	require.NotRegexp(t, expected("a.c"), "abc")
}

// notRun are the commands of sh blocks that these tests do not run, each with
// the reason. The targets and packages that they name must exist all the same.
var notRun = map[string]string{
	"go get github.com/redmux/redmux/redlock": "adds the module to another one, which is what the release check does",
	"make test":                              "runs this test",
	"make servers":                           "fetches servers from a mirror, which a test does not depend on; CI runs it",
	"make servers SUITE=full":                "minutes for each server",
	"ONLY='redis 8' make servers SUITE=full": "minutes for each server",
	"make lint":                              "CI runs it",
	"make sim SEEDS=1000":                    "minutes",
	"make mutants ONLY=fence":                "minutes",
	"make fuzz":                              "minutes; CI runs a shorter form",
	"make contrib":                           "make check runs it",
	"make check":                             "half an hour; CI runs it",
	"make check FULL=1":                      "hours",
	"make race":                              "minutes; CI runs it",
	"make help":                              "lists the targets, which change",
	"make bench CASE=quick":                  "most of a minute; CI runs it",
}
