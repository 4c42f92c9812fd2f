package main

import (
	"bytes"
	"fmt"
	"maps"
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

	"github.com/redmux/redmux/internal/redistest"
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

// smallMutant replaces the line that computes.
func smallMutant(line string, head ...string) string {
	return "In: p\n" + strings.Join(head, "\n") + "\n@@\n func Even(n int) bool {\n-\treturn n%2 == 0\n+\t" + line + "\n }\n"
}

func plantSmall(t *testing.T, blocks map[string]string) (*campaign, *bytes.Buffer) {
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
	var file strings.Builder
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		fmt.Fprintf(&file, "== %s\n%s\n", name, blocks[name])
	}
	write(t, filepath.Join(dir, "p.txt"), file.String())
	read, err := readMutants(dir, nil)
	require.NoError(t, err)
	var said bytes.Buffer
	return &campaign{
		options: options{jobs: 2, limit: 10 * time.Second, simLimit: time.Minute, seeds: 10},
		root:    root, mutants: read, out: &said,
	}, &said
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

var fine = []string{"Rule: R1", "Breaks: It is odd."}

func TestWhatBecomesOfMutants(t *testing.T) {
	redistest.Long(t)
	c, said := plantSmall(t, map[string]string{
		"killed":    smallMutant("return n%2 == 1", append(fine, "Killed-by: ./p TestEven|TestCopied")...),
		"twice":     smallMutant("return n%2 == 1", append(fine, "Killed-by: ./p TestEven", "Killed-by: ./p TestOdd")...),
		"survivor":  smallMutant("return true", append(fine, "Killed-by: ./p TestEven")...),
		"half":      smallMutant("return true", append(fine, "Killed-by: ./p TestOdd", "Killed-by: ./p TestEven")...),
		"panics":    smallMutant("panic(n)", append(fine, "Killed-by: ./p TestOdd")...),
		"unbuilt":   smallMutant("return n", append(fine, "Killed-by: ./p TestEven")...),
		"hangs":     smallMutant("for {}", append(fine, "Killed-by: ./p TestEven")...),
		"may-hang":  smallMutant("for {}", append(fine, "Killed-by: ./p TestEven", "Killed-by: timeout")...),
		"no-server": smallMutant("return true", append(fine, "Killed-by: ./p TestOdd", "Killed-by: ./p TestWithServer")...),
		"stale": strings.Replace(smallMutant("return true", append(fine, "Killed-by: ./p TestOdd")...),
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
		`(?m)^stale +R1 +BROKEN it cannot be planted: the old lines of hunk 1 occur 0 times in p`,
		`(?m)^unbuilt +R1 +BROKEN it does not build`,
		`(?m)^hangs +R1 .* did not end: ./p TestEven$`,
	} {
		assert.Regexp(t, line, said.String())
	}
}

// Without a race detector, mutants that only it finds are not covered. That is
// no error, and does not end the others.
func TestNoRaceDetector(t *testing.T) {
	redistest.Long(t)
	t.Setenv("CGO_ENABLED", "0")
	t.Setenv("REDMUX_REQUIRE_SERVERS", "1")
	c, said := plantSmall(t, map[string]string{
		"race":  smallMutant("return n%2 == 1", append(fine, "Killed-by: -race ./p TestEven")...),
		"plain": smallMutant("return n%2 == 1", append(fine, "Killed-by: ./p TestEven")...),
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
	redistest.Long(t)
	for tests, want := range map[string]string{
		"TestFailsAnyway": "on the unbroken tree, ./p TestFailsAnyway: TestFailsAnyway",
		"TestEve":         "on the unbroken tree, ./p TestEve: no such test",
	} {
		c, _ := plantSmall(t, map[string]string{"any": smallMutant("return n%2 == 1", append(fine, "Killed-by: ./p "+tests)...)})
		_, err := c.run(t.Context())
		require.Error(t, err)
		assert.Contains(t, err.Error(), want)
	}
}

func TestBlocksThatAreNotUnderstood(t *testing.T) {
	const hunk = "\n@@\n-a\n+b\n"
	for block, want := range map[string]string{
		"In: p\nRule: R1\nKilled-by: ./p TestEven" + hunk:                                   "what it Breaks",
		"In: p\nBreaks: It.\nKilled-by: ./p TestEven" + hunk:                                "a Rule",
		"In: p\nRule: R1\nBreaks: It." + hunk:                                               "a Killed-by",
		"Rule: R1\nBreaks: It.\nKilled-by: ./p TestEven" + hunk:                             "an In",
		"In: p\nRule: R1\nBreaks: It.\nKilled-by: TestEven" + hunk:                          "names neither",
		"In: p\nRule: R1\nBreaks: It.\nKilled-by: sim planets" + hunk:                       "names neither",
		"In: p\nRule: R1\nBreaks: It.\nKilled-by: ./p TestEven\nBecause: of nothing" + hunk: "none of In",
		"In: p\nRule: R1\nBreaks: It.\nKilled-by: ./p TestEven":                             "changes nothing",
		"In: p\nRule: R1\nBreaks: It.\nKilled-by: ./p TestEven\n@@\n a\n":                   "changes none",
		"In: p\nRule: R1\nBreaks: It.\nKilled-by: ./p TestEven\n@@\n+a\n":                   "no old lines",
		"In: p\nRule: R1\nBreaks: It.\nKilled-by: ./p TestEven\n@@\na\n":                    "none of space",
	} {
		_, err := parseMutants("== name\n" + block)
		require.ErrorContains(t, err, want, block)
		require.ErrorContains(t, err, "name: ")
	}
	whole := "In: p\nRule: R1\nBreaks: It.\nKilled-by: ./p TestEven" + hunk
	for text, want := range map[string]string{
		"":                                    "does not begin",
		"stray\n== a\n" + whole:               "does not begin",
		"== b\n" + whole + "\n== a\n" + whole: "out of order",
	} {
		_, err := parseMutants(text)
		require.ErrorContains(t, err, want, text)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p.txt"), "== a\n"+whole)
	write(t, filepath.Join(dir, "q.txt"), "== a\n"+whole)
	_, err := readMutants(dir, nil)
	require.ErrorContains(t, err, "two mutants are named a")
}

// A block is matched in its package: code that moves to another file of it
// keeps its mutants, and lines that occur twice are refused.
func TestBlocksFollowTheirLines(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "p", "one.go"), "a\n\nb\n")
	write(t, filepath.Join(root, "p", "one_test.go"), "a\n")
	write(t, filepath.Join(root, "p", "two.go"), "c\nxa\n")
	write(t, filepath.Join(root, "q", "three.go"), "d\n")
	text := "== m\nIn: p\nRule: R1\nBreaks: It.\nKilled-by: ./p TestEven\n@@\n-a\n+e\n\n@@\n e\n\n-b\n@@ q\n-d\n+f\n+g\n"
	read, err := parseMutants(text)
	require.NoError(t, err)
	edited, err := read[0].edits(root)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{filepath.Join("p", "one.go"): "e\n\n", filepath.Join("q", "three.go"): "f\ng\n"}, edited)
	require.NoError(t, os.Rename(filepath.Join(root, "p", "one.go"), filepath.Join(root, "p", "moved.go")))
	require.NoError(t, check(root, read))
	write(t, filepath.Join(root, "p", "two.go"), "a\n\n")
	require.ErrorContains(t, check(root, read), "m: it cannot be planted: the old lines of hunk 1 occur 2 times in p")
	require.NoError(t, os.RemoveAll(filepath.Join(root, "p")))
	require.ErrorIs(t, check(root, read), errNotPlanted)
}

func TestKillersAreRead(t *testing.T) {
	for text, want := range map[string]killer{
		"./p TestX":               {pkg: "./p", tests: "TestX"},
		"-race -tags=a ./p TestX": {flags: []string{"-race", "-tags=a"}, pkg: "./p", tests: "TestX"},
		"./p TestX/case_1":        {pkg: "./p", tests: "TestX/case_1"},
		"sim":                     {sim: true},
		"./proof/sim T":           {pkg: "./proof/sim", tests: "T"},
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

// rules matches one rule or several: R1 to R34, and F1 to F4 of
// docs/internals/fencing.md.
var rules = regexp.MustCompile(`^[FR]\d+(, [FR]\d+)*$`)

// Every mutant of the tree is understood and can be planted: a change to the
// code that a block is about must also change the block. The tests that it names
// exist. Whether mutants build, and what kills them, is for `make mutants` to
// tell.
func TestMutantsCanBePlanted(t *testing.T) {
	tests := make(map[string]string) // all tests of a package
	mutants, err := readMutants("../../testdata/mutants", nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(mutants), 30)
	for _, m := range mutants {
		assert.Regexp(t, rules, m.rule, m.name)
		assert.Regexp(t, `^[A-Z].*\.$`, m.breaks, "%s: a sentence", m.name)
		for _, k := range m.killers {
			if k.sim {
				continue
			}
			if tests[k.pkg] == "" {
				tests[k.pkg] = testsOf(t, filepath.Join("../..", k.pkg))
			}
			for name := range strings.SplitSeq(k.tests, "|") {
				name, _, _ = strings.Cut(name, "/")
				found := strings.Contains(tests[k.pkg], "\nfunc "+name+"(")
				assert.True(t, found, "%s: no test of %s is %s", m.name, k.pkg, name)
			}
		}
	}
	require.NoError(t, check("../..", mutants))
}

func testsOf(t *testing.T, dir string) (text string) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		text += string(source)
	}
	return text
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-only", "("}, {"-j", "0"}, {"-seeds", "0"}, {"-limit", "0s"}, {"stray"}, {"-unknown"},
	} {
		_, err := parse(args)
		require.Error(t, err, args)
	}
	o, err := parse([]string{"-only", "fence", "-j", "3"})
	require.NoError(t, err)
	assert.True(t, o.only.MatchString("no-fence"))
	assert.Equal(t, 3, o.jobs)
}
