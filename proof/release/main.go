// Command release shows that a release of this repository can be used:
// `make release`.
//
// It makes the zip files of all modules from the last commit, at the version
// that they require of each other, and offers them in a folder that serves as a
// module proxy. Then it does what users do, in modules outside of the tree: get
// the root, build and run the program of the README, get each module of contrib
// and build it, and install the commands. Nothing of this reaches the module
// cache, and nothing is published.
//
// See docs/internals/releasing.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

// root is the path of the module at the top of the tree.
const root = "github.com/redmux/redmux"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	commit := flag.String("commit", "HEAD", "what is released")
	flag.Parse()
	if flag.NArg() > 0 {
		return errors.New("takes no arguments")
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	tree := filepath.Join(work, "tree")
	if err := archive(ctx, *commit, tree); err != nil {
		return err
	}
	modules, err := modulesOf(tree)
	if err != nil {
		return err
	}
	version, err := versionOf(modules)
	if err != nil {
		return err
	}
	proxy := filepath.Join(work, "proxy")
	for _, m := range modules {
		size, err := m.publish(proxy, version)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		fmt.Printf("%s@%s: %d KiB\n", m.path, version, size>>10)
	}
	u, err := newUser(ctx, work, proxy, version)
	if err != nil {
		return err
	}
	return u.useAll(tree, modules)
}

// archive copies the tree of a commit. What is not committed is not released.
func archive(ctx context.Context, commit, to string) error {
	top, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("not within a git tree: %w", err)
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	file := to + ".tar"
	cmd := exec.CommandContext(ctx, "git", "archive", "--output="+file, commit)
	cmd.Dir = strings.TrimRight(string(top), "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git archive: %w: %s", err, out)
	}
	if out, err := exec.CommandContext(ctx, "tar", "-x", "-f", file, "-C", to).CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	return nil
}
