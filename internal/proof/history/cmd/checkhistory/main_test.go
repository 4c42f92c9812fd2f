package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	first = `{"t":1,"client":0,"resource":"k","attempt":1,"ev":"grant","token":"01234567","until":100}
{"t":9,"client":0,"resource":"k","attempt":1,"ev":"release","token":"01234567","until":100}
`
	after    = `{"t":10,"client":0,"resource":"k","attempt":1,"ev":"grant","token":"89abcdef","until":100}` + "\n"
	meantime = `{"t":5,"client":0,"resource":"k","attempt":1,"ev":"grant","token":"89abcdef","until":100}` + "\n"
)

func files(t *testing.T, texts ...string) (names []string) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		name := filepath.Join(dir, string(rune('a'+i)))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		names = append(names, name)
	}
	return names
}

func TestCheckhistory(t *testing.T) {
	for _, c := range []struct {
		name  string
		texts []string
		code  int
		says  []string
	}{
		{"good", []string{first, after}, exitGood, []string{"events       3", "grants       2, of which 0", "resources    1", "violations   0"}},
		{"one file", []string{first}, exitGood, []string{"porcupine    2 operations in 1 windows: 0 violated, 0 not decided"}},
		{"violated", []string{first, meantime}, exitViolated, []string{
			`"k": two holders at a time: client 0.0 attempt 1 grant at t=1`, "both valid for 4ns from t=5 on", `porcupine: lock "k"`}},
		{"one token twice, by chance or not", []string{first, strings.ReplaceAll(after, "89abcdef", "01234567")}, exitViolated, []string{
			"repeated     1 grants", "a token was granted twice"}},
		{"cut", []string{first, after + `{"t":11,"cli`}, exitGood, []string{"cut          1 files", "violations   0"}},
		{"cut and violated", []string{first, meantime + `{"t":11,"cli`}, exitViolated, []string{"cut          1 files"}},
		{"no history", []string{first, "nonsense\n"}, exitFailed, []string{"stream 1: history: line 1"}},
		{"out of order", []string{after + strings.Replace(after, `"t":10`, `"t":20000000000`, 1) + strings.Replace(after, `"t":10`, `"t":5`, 1)}, exitFailed, []string{"out of order"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			require.Equal(t, c.code, run(files(t, c.texts...), nil, &out, &out), out.String())
			for _, s := range c.says {
				require.Contains(t, out.String(), s)
			}
		})
	}
}

func TestStandardInput(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, exitViolated, run([]string{"-", files(t, meantime)[0]}, strings.NewReader(first), &out, &out))
}

func TestUse(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, exitGood, run([]string{"--help"}, nil, &out, &out))
	require.Contains(t, out.String(), "--disorder")
	require.Equal(t, exitUsage, run(nil, nil, &out, &out))
	require.Equal(t, exitUsage, run([]string{"--nonsense", "x"}, nil, &out, &out))
	require.Equal(t, exitFailed, run([]string{filepath.Join(t.TempDir(), "not there")}, nil, &out, &out))
}

// If there are very many violations, only some are printed.
func TestShow(t *testing.T) {
	var b strings.Builder
	for range 50 {
		b.WriteString(meantime)
	}
	var out bytes.Buffer
	require.Equal(t, exitViolated, run(append([]string{"--show=3"}, files(t, b.String())...), nil, &out, &out))
	require.Contains(t, out.String(), "violations   49")
	require.Equal(t, 3, strings.Count(out.String(), "granted twice"))
}
