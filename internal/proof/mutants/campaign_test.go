package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A small tree with a tested function, and what can happen to bugs in it.
var smallTree = map[string]string{
	"go.mod":    "module example.com/small\n\ngo 1.25\n",
	"p/even.go": "package p\n\n// Even reports whether n is even.\nfunc Even(n int) bool {\n\treturn n%2 == 0\n}\n",
	"p/even_test.go": `package p

import (
	"os"
	"testing"
)

func TestEven(t *testing.T) {
	if !Even(2) {
		t.Error("2 is even")
	}
}

func TestOdd(t *testing.T) {
	if Even(3) {
		t.Error("3 is odd")
	}
}

func TestWithServer(t *testing.T) { t.Skip("there is no server") }

func TestFailsAnyway(t *testing.T) { t.Error("whatever is planted") }

// The tested tree is a copy, without what git ignores.
func TestCopied(t *testing.T) {
	if _, err := os.Stat("ignored.txt"); err == nil {
		t.Error("this is not the copy")
	}
}
`,
	".gitignore":    "ignored.txt\n",
	"p/ignored.txt": "",
}

// smallPatch replaces the line that computes.
func smallPatch(line string, head ...string) string {
	return strings.Join(head, "\n") + "\n\n--- a/p/even.go\n+++ b/p/even.go\n@@ -4,3 +4,3 @@\n func Even(n int) bool {\n" +
		"-\treturn n%2 == 0\n+\t" + line + "\n }\n"
}

func plantSmall(t *testing.T, patches map[string]string) (*campaign, *bytes.Buffer) {
	t.Helper()
	root := t.TempDir()
	out, err := exec.Command("git", "init", "-q", root).CombinedOutput()
	if err != nil {
		t.Skipf("skipped: it needs git: %v %s", err, out)
	}
	for name, text := range smallTree {
		write(t, filepath.Join(root, name), text)
	}
	dir := filepath.Join(root, "testdata", "mutants")
	for name, text := range patches {
		write(t, filepath.Join(dir, name+".patch"), text)
	}
	read, err := readPatches(dir, nil)
	require.NoError(t, err)
	var said bytes.Buffer
	return &campaign{
		options: options{jobs: 2, limit: 10 * time.Second, simLimit: time.Minute, seeds: 10},
		root:    root, patches: read, out: &said,
	}, &said
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

var fine = []string{"Rule: R1", "Breaks: It is odd."}

func TestWhatBecomesOfMutants(t *testing.T) {
	c, said := plantSmall(t, map[string]string{
		"killed":    smallPatch("return n%2 == 1", append(fine, "Killed-by: ./p TestEven|TestCopied")...),
		"twice":     smallPatch("return n%2 == 1", append(fine, "Killed-by: ./p TestEven", "Killed-by: ./p TestOdd")...),
		"survivor":  smallPatch("return true", append(fine, "Killed-by: ./p TestEven")...),
		"half":      smallPatch("return true", append(fine, "Killed-by: ./p TestOdd", "Killed-by: ./p TestEven")...),
		"panics":    smallPatch("panic(n)", append(fine, "Killed-by: ./p TestOdd")...),
		"unbuilt":   smallPatch("return n", append(fine, "Killed-by: ./p TestEven")...),
		"hangs":     smallPatch("for {}", append(fine, "Killed-by: ./p TestEven")...),
		"may-hang":  smallPatch("for {}", append(fine, "Killed-by: ./p TestEven", "Killed-by: timeout")...),
		"no-server": smallPatch("return true", append(fine, "Killed-by: ./p TestOdd", "Killed-by: ./p TestWithServer")...),
		"stale": strings.Replace(smallPatch("return true", append(fine, "Killed-by: ./p TestOdd")...),
			"-\treturn n%2 == 0", "-\treturn n&1 == 0", 1),
	})
	results, err := c.run(t.Context())
	require.NoError(t, err)
	var killed, uncovered []string
	for _, r := range results {
		switch {
		case r.killed():
			killed = append(killed, r.name)
		case r.uncovered():
			uncovered = append(uncovered, r.name)
		}
	}
	assert.Equal(t, []string{"killed", "may-hang", "panics", "twice"}, killed)
	assert.Equal(t, []string{"no-server"}, uncovered)
	err = c.summarise(results)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "half, hangs, stale, survivor, unbuilt")
	for _, line := range []string{
		`(?m)^killed +R1 .* TestEven$`,
		`(?m)^survivor +R1 .* survived: ./p TestEven$`,
		`(?m)^stale +R1 +BROKEN it does not apply`,
		`(?m)^unbuilt +R1 +BROKEN it does not build`,
		`(?m)^hangs +R1 .* did not end: ./p TestEven$`,
	} {
		assert.Regexp(t, line, said.String())
	}
	// A table lists what was killed, and nothing else.
	path := filepath.Join(c.root, "table.md")
	require.Error(t, writeTable(path, results, 10))
	require.NoFileExists(t, path)
	i := slices.IndexFunc(results, func(r *result) bool { return r.name == "killed" })
	require.NoError(t, writeTable(path, results[i:i+1], 10))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Contains(t, string(text), "| killed | R1 | It is odd. | p TestEven |\n")
}

// Without a race detector, mutants that only it finds are not covered. That is
// no error, and does not end the others.
func TestNoRaceDetector(t *testing.T) {
	t.Setenv("CGO_ENABLED", "0")
	t.Setenv("REDMUX_REQUIRE_SERVERS", "1")
	c, said := plantSmall(t, map[string]string{
		"race":  smallPatch("return n%2 == 1", append(fine, "Killed-by: -race ./p TestEven")...),
		"plain": smallPatch("return n%2 == 1", append(fine, "Killed-by: ./p TestEven")...),
	})
	results, err := c.run(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.summarise(results))
	assert.Regexp(t, `(?m)^race +R1 .* not covered: it needs the race detector, and so cgo: -race ./p TestEven$`, said.String())
	assert.Contains(t, said.String(), "2 mutants: 1 killed, 1 not covered")
}

// A test that fails on the unbroken tree proves nothing when it fails with a
// bug; nor does a name without a test.
func TestTheUnbrokenTreeMustPass(t *testing.T) {
	for tests, want := range map[string]string{
		"TestFailsAnyway": "on the unbroken tree, ./p TestFailsAnyway: TestFailsAnyway",
		"TestEve":         "on the unbroken tree, ./p TestEve: no such test",
	} {
		c, _ := plantSmall(t, map[string]string{"any": smallPatch("return n%2 == 1", append(fine, "Killed-by: ./p "+tests)...)})
		_, err := c.run(t.Context())
		require.Error(t, err)
		assert.Contains(t, err.Error(), want)
	}
}

func TestPatchesThatAreNotUnderstood(t *testing.T) {
	body := smallPatch("return true", "")
	for head, want := range map[string]string{
		"Rule: R1\nKilled-by: ./p TestEven":                                   "what it Breaks",
		"Breaks: It.\nKilled-by: ./p TestEven":                                "a Rule",
		"Rule: R1\nBreaks: It.":                                               "a Killed-by",
		"Rule: R1\nBreaks: It.\nKilled-by: TestEven":                          "names neither",
		"Rule: R1\nBreaks: It.\nKilled-by: sim planets":                       "names neither",
		"Rule: R1\nBreaks: It.\nKilled-by: ./p TestEven\nBecause: of nothing": "none of Rule",
	} {
		_, err := parsePatch("p", head+body)
		require.ErrorContains(t, err, want, head)
	}
	_, err := parsePatch("p", "Rule: R1\nBreaks: It.\nKilled-by: ./p TestEven\n")
	require.ErrorContains(t, err, "changes nothing")
	_, err = parsePatch("p", "Rule: R1\nBreaks: It.\nKilled-by: ./p TestEven\n\n--- a/p/even.go\n+++ /dev/null\n")
	require.ErrorContains(t, err, "removed")
}

func TestKillersAreRead(t *testing.T) {
	for text, want := range map[string]killer{
		"./p TestX":                      {pkg: "./p", tests: "TestX"},
		"-race -tags=a ./p TestX":        {flags: []string{"-race", "-tags=a"}, pkg: "./p", tests: "TestX"},
		"./p TestX/case_1":               {pkg: "./p", tests: "TestX/case_1"},
		"sim":                            {sim: simAny},
		"sim machines":                   {sim: "machines"},
		"./internal/proof/sim/running T": {pkg: "./internal/proof/sim/running", tests: "T"},
	} {
		k, err := parseKiller(text)
		require.NoError(t, err)
		assert.Equal(t, want, k)
		assert.Equal(t, text, k.String())
	}
	assert.Equal(t, "^(?:TestX|TestY)$/^(?:case)$", whole("TestX|TestY/case"))
}

func TestOutputsAreJudged(t *testing.T) {
	for out, want := range map[string]verdict{
		"=== RUN   TestA\n--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\nFAIL\n": {ending: failed, test: "TestA"},
		"=== RUN   TestA\n=== RUN   TestA/b\npanic: elsewhere\n\ngoroutine 7":             {ending: failed, test: "TestA"},
		"=== RUN   TestA\npanic: test timed out after 1m0s\n":                             {ending: hung},
		"--- FAIL: TestA (0.0s)\n    x.go:1: seed 417: exclusion: two holders\n":          {ending: failed, test: "TestA", seed: 417},
		"--- FAIL: TestS (1s)\n    --- FAIL: TestS/all (1s)\n        --- FAIL: TestS/all/-sim.seed=31 (0s)\n" +
			"        --- PASS: TestS/all/-sim.seed=7 (0s)\n": {
			ending: failed, test: "TestS", seed: 31,
		},
		"": {ending: failed},
	} {
		v := judge([]byte(out), false)
		v.output = ""
		assert.Equal(t, want, v, out)
	}
	for out, want := range map[string]ending{
		"--- PASS: TestA (0.00s)\nPASS\n":                        passed,
		"--- SKIP: TestA (0.00s)\n--- PASS: TestB (0.00s)\nPASS": passed,
		"--- SKIP: TestA (0.00s)\nPASS\n":                        skipped,
		"testing: warning: no tests to run\nPASS\n":              missing,
	} {
		assert.Equal(t, want, judge([]byte(out), true).ending, out)
	}
}

// rules matches one rule or several: R1 to R32, and F1 to F4 of docs/fencing.md.
var rules = regexp.MustCompile(`^[FR]\d+(, [FR]\d+)*$`)

// Every patch of the tree is understood and still applies: a change to the code
// that a patch is about must also change the patch. Whether patches build, and
// what kills them, is for `make mutants` to tell.
func TestPatchesApply(t *testing.T) {
	patches, err := readPatches("../../../testdata/mutants", nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), 30)
	for _, p := range patches {
		assert.Regexp(t, rules, p.rule, p.name)
		assert.Regexp(t, `^[A-Z].*\.$`, p.breaks, "%s: a sentence", p.name)
	}
	requireRepository(t)
	for _, p := range patches {
		cmd := exec.Command("git", "apply", "--check", "testdata/mutants/"+p.name+".patch")
		cmd.Dir = "../../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s does not apply: %v %s", p.name, err, out)
		}
	}
}

// requireRepository skips a test unless the module's root is that of a
// repository. Elsewhere, as in a folder of vendored modules, git apply would
// look for the files at another root, find none, and succeed.
func requireRepository(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("skipped: it needs git")
	}
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	root, err = filepath.EvalSymlinks(root)
	require.NoError(t, err)
	cmd := exec.Command("git", "rev-parse", "--show-toplevel")
	cmd.Dir = root
	out, err := cmd.Output()
	if top := filepath.FromSlash(strings.TrimSpace(string(out))); err != nil || top != root {
		t.Skip("skipped: it needs the module's root to be that of a git repository")
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-only", "("}, {"-j", "0"}, {"-seeds", "0"}, {"-limit", "0s"}, {"-table", "-only", "x"}, {"stray"}, {"-unknown"},
	} {
		_, err := parse(args)
		require.Error(t, err, args)
	}
	o, err := parse([]string{"-only", "fence", "-j", "3"})
	require.NoError(t, err)
	assert.True(t, o.only.MatchString("no-fence"))
	assert.Equal(t, 3, o.jobs)
}
