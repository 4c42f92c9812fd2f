package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// rootOf returns the folder of the library's module, whether or not git knows
// the tree.
func rootOf(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/redmux/redmux").Output()
	if err != nil {
		return "", fmt.Errorf("not within the module: go list: %w", err)
	}
	return strings.TrimRight(string(out), "\r\n"), nil
}

// filesOf lists the files of the tree: those that git tracks, and those that
// could be added, so that a new test counts before it is committed.
func filesOf(ctx context.Context, root string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	return strings.Split(strings.TrimRight(string(out), "\x00"), "\x00"), nil
}

// copyTree copies files from one root to another. Files that git lists but that
// do not exist were deleted, and are left out.
func copyTree(from, to string, files []string) error {
	for _, file := range files {
		err := copyFile(filepath.Join(from, file), filepath.Join(to, file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}
