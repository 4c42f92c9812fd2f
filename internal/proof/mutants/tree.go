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

// rootOf is the root of the tree that the command runs in.
func rootOf(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("not within a git tree: %w", err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// filesOf lists what makes the tree: what git tracks, and what it would if it were added, so that a new test counts before
// it is committed.
func filesOf(ctx context.Context, root string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	return strings.Split(strings.TrimRight(string(out), "\x00"), "\x00"), nil
}

// copyTree copies files from one root to another. What git lists and is not there was deleted, and is left out.
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

// errNotApplied is a patch that fits the tree no longer.
var errNotApplied = errors.New("it does not apply")

// apply changes a copy by a patch, and returns what puts the copy back.
func (p *patch) apply(ctx context.Context, pristine, copied string) (restore func() error, err error) {
	cmd := exec.CommandContext(ctx, "git", "apply", p.path)
	cmd.Dir = copied
	// Within some other git tree, git apply would look for the files at that one's root, find none, and be content.
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
