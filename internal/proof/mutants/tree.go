package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// rootOf returns the root of the tree that the command runs in.
func rootOf(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("not within a git tree: %w", err)
	}
	return strings.TrimRight(string(out), "\n"), nil
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

// errNotApplied is returned for a patch that no longer fits the tree.
var errNotApplied = errors.New("it does not apply")

// apply applies a patch to a copy, and returns a function that restores the
// copy.
func (p *patch) apply(ctx context.Context, pristine, copied string) (restore func() error, err error) {
	cmd := exec.CommandContext(ctx, "git", "apply", p.path)
	cmd.Dir = copied
	// Within another git tree, git apply would look for the files at that
	// tree's root, find none, and succeed.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(copied))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", errNotApplied, bytes.TrimSpace(out))
	}
	return func() error {
		for _, file := range p.files {
			if err := copyFile(filepath.Join(pristine, file), filepath.Join(copied, file)); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
