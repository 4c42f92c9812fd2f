package redlocktest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the scripts do is recorded in testdata/scripts, a command a line: what
// it was, what the server said, and the keys that it left. A real server and a
// node in memory must do what is written there. The commands are drawn from few
// keys, tokens and times, so that they meet, always the same.
//
//	go test ./redlocktest -run TestRecorded -scripts.record   writes them anew
var record = flag.Bool("scripts.record", false, "write testdata/scripts anew, from a real server")

// A recording is one file of testdata/scripts.
type recording struct {
	name  string
	steps int
	keys  []string                              // whose state is shown
	draw  func(r *rand.Rand, step int) []string // the next command
	short *strings.Replacer                     // makes texts shorter; nil for none
}

// unit is the least difference of times, in ms, that a recording shows. No TTL
// ends during a test.
const unit = 1_000_000

func (r recording) run(t *testing.T) {
	t.Helper()
	path := filepath.Join("..", "testdata", "scripts", r.name+".txt")
	if *record {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(r.lines(t, onServer(t)), "\n")+"\n"), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for side, do := range map[string]func(args ...string) any{"on a real server": onServer(t), "in memory": inMemory(t)} {
		for i, line := range r.lines(t, do) {
			require.Equal(t, want[i], line, "%s: %s:%d", side, path, i+1)
		}
	}
}

func (r recording) lines(t *testing.T, do func(args ...string) any) []string {
	random := rand.New(rand.NewPCG(1, 0))
	do(append([]string{"DEL"}, r.keys...)...)
	lines := make([]string, r.steps)
	for i := range lines {
		command := r.draw(random, i)
		line := fmt.Sprintf("%s → %v", r.command(t, command), do(command...))
		for _, key := range r.keys {
			line += r.state(do, key)
		}
		if r.short != nil {
			line = r.short.Replace(line)
		}
		lines[i] = strings.ReplaceAll(line, "\r\n", `\r\n`)
	}
	return lines
}

// command names the script of a command, and its keys and arguments.
func (r recording) command(t *testing.T, args []string) string {
	if args[0] != "EVAL" {
		return strings.Join(args, " ")
	}
	n, err := strconv.Atoi(args[2])
	require.NoError(t, err)
	return scriptName(t, args[1]) + " " + strings.Join(args[3:3+n], " ") + " : " + strings.Join(args[3+n:], " ")
}

// scriptName returns the name of a script's file.
func scriptName(t *testing.T, source string) string {
	files, err := filepath.Glob("../internal/lua/*.lua")
	require.NoError(t, err)
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && string(text) == source {
			return strings.TrimSuffix(filepath.Base(file), ".lua")
		}
	}
	t.Fatal("no such script")
	return ""
}

// state shows a key that exists: its value, or its members, each with its
// score or the time that it stands for, and what is left of its own time.
func (r recording) state(do func(args ...string) any, key string) string {
	rest := do("PTTL", key).(int64)
	if rest == -2 {
		return ""
	}
	left := "ever"
	if rest >= 0 {
		left = units(rest)
	}
	if strings.HasSuffix(key, ":readers") || strings.HasSuffix(key, ":permits") || strings.HasSuffix(key, ":queue") {
		return fmt.Sprintf(" | %s (%s) %s", key, members(do, key), left)
	}
	return fmt.Sprintf(" | %s=%v %s", key, do("GET", key), left)
}

func members(do func(args ...string) any, key string) string {
	seconds := do("TIME").([]any)[0].(string)
	now, _ := strconv.ParseInt(seconds, 10, 64)
	var shown []string
	all := do("ZRANGE", key, "0", "-1", "WITHSCORES").([]any)
	for i := 0; i < len(all); i += 2 {
		score := all[i+1].(string)
		if !strings.HasSuffix(key, ":queue") {
			ends, _ := strconv.ParseFloat(score, 64)
			score = units(int64(ends) - 1000*now)
		}
		shown = append(shown, fmt.Sprint(all[i], " ", score))
	}
	if !strings.HasSuffix(key, ":queue") {
		slices.Sort(shown) // which of two ends first may be a matter of a millisecond
	}
	return strings.Join(shown, ", ")
}

func units(ms int64) string { return strconv.FormatInt((ms+unit/2)/unit, 10) }

// times returns a TTL as an argument: so many times a hundred units, and one
// more unit with each step, so that no two are the same.
func times(r *rand.Rand, step int) string { return strconv.Itoa((100*(1+r.IntN(9)) + step) * unit) }

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }
