package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A small module that compiles on 64-bit unix systems only.
var module = map[string]string{
	"go.mod":            "module example.com/small\n\ngo 1.25\n",
	"a.go":              "package small\n\nconst size = 1 << 40\n\nvar _ int = size\n",
	"c_linux.go":        "package small\n\nimport \"fmt\"\n\nfunc c() { fmt.Println(onlyUnix()) }\n",
	"d.go":              "//go:build unix\n\npackage small\n\nimport \"syscall\"\n\nfunc onlyUnix() int { return syscall.Getpid() }\n",
	"e_test.go":         "package small_test\n\nimport \"testing\"\n\nfunc TestE(t *testing.T) { t.Log(\"e\") }\n",
	"w_windows.go":      "package small\n\nfunc w() { onlyUnix() }\n",
	"f_freebsd_test.go": "package small\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tunused := 1\n}\n",
}

func TestErrorsOfEachSystemAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range module {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	t.Chdir(dir)
	for system, want := range map[string]string{
		"linux/amd64":   "",
		"darwin/arm64":  "",
		"linux/386":     "overflows",
		"windows/amd64": "undefined: onlyUnix",
		"freebsd/amd64": "declared and not used: unused",
		"plan10/amd64":  "not a system",
		"linux/abacus":  "not a system",
		"linux":         "not a system",
	} {
		var out bytes.Buffer
		err := run([]string{system, "--", "./..."}, &out)
		if want == "" {
			require.NoError(t, err, system)
			require.Contains(t, out.String(), system+": ")
			continue
		}
		require.ErrorContains(t, err, want, system)
	}
	for _, args := range [][]string{nil, {"--"}, {"linux/amd64"}, {"linux/amd64", "--"}, {"--", "./..."}} {
		require.ErrorContains(t, run(args, new(bytes.Buffer)), "usage")
	}
}
