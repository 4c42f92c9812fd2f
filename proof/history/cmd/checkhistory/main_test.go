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
		{"one token twice", []string{first, strings.ReplaceAll(after, "89abcdef", "01234567")}, exitViolated, []string{"a token was granted twice"}},
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

// Histories of each form, as they should be and broken.
func TestForms(t *testing.T) {
	write := strings.NewReplacer(`"form":"read"`, `"form":"write"`)
	few := strings.NewReplacer(`"permits":2`, `"permits":1`)
	for _, c := range []struct {
		name, text  string
		says        string
		broken, why string
	}{
		{
			"read/write", shared(`,"form":"read"`), "2 read", write.Replace(shared(`,"form":"read"`)),
			`two holders at a time: client 0.0 attempt 1 grant at t=1 (write)`,
		},
		{
			"permits", shared(`,"form":"permit","permits":2`), "2 permits", few.Replace(shared(`,"form":"permit","permits":2`)),
			`more holders than permits: client 0.0 attempt 1 grant at t=1 (permit)`,
		},
		{
			"fair", queue(true), "1 fair", queue(false) + `{"t":9,"client":1,"resource":"k","attempt":1,"ev":"cancel","form":"fair"}` + "\n",
			`granted although another that was in the queue before it began was still there: client 0.1 attempt 1 queued at t=2 (fair)`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			require.Equal(t, exitGood, run(files(t, c.text), nil, &out, &out), out.String())
			require.Contains(t, out.String(), c.says)
			out.Reset()
			require.Equal(t, exitViolated, run(files(t, c.broken), nil, &out, &out), out.String())
			require.Contains(t, out.String(), c.why)
		})
	}
}

// shared are two grants at one time.
func shared(form string) string {
	return strings.ReplaceAll(`{"t":0,"client":0,"resource":"k","attempt":1,"ev":"start"}
{"t":0,"client":1,"resource":"k","attempt":1,"ev":"start"}
{"t":1,"client":0,"resource":"k","attempt":1,"ev":"grant","until":100}
{"t":5,"client":1,"resource":"k","attempt":1,"ev":"grant","until":100}
`, "}", form+"}")
}

// queue has one that waits, and another that begins later and is served: when
// the first has left, or not.
func queue(left bool) string {
	text := `{"t":0,"client":1,"resource":"k","attempt":1,"ev":"start","form":"fair"}
{"t":2,"client":1,"resource":"k","attempt":1,"ev":"queued","until":5,"form":"fair"}
{"t":3,"client":2,"resource":"k","attempt":1,"ev":"start","form":"fair"}
`
	if left {
		text += `{"t":4,"client":1,"resource":"k","attempt":1,"ev":"held","form":"fair"}` + "\n"
	}
	return text + `{"t":4,"client":2,"resource":"k","attempt":1,"ev":"grant","until":9,"form":"fair"}` + "\n"
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
