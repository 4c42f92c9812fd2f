//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// errForeignLink is the cause if a file is not opened.
var errForeignLink = errors.New("a link that belongs to another user leads there")

// mostLinks is how many links Linux follows, too.
const mostLinks = 40

// ownLinks returns errForeignLink if a path leads through a symbolic link that
// belongs neither to us nor to root. In a folder such as /tmp any user can put a
// link where we are about to write, or have us read another file.
func ownLinks(path string) error {
	at, rest := "", path
	if filepath.IsAbs(path) {
		at = "/"
	}
	for links := 0; ; {
		name, behind, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		if name == "" {
			return nil
		}
		next := filepath.Join(at, name) // at has no links, so .. is its parent
		info, err := os.Lstat(next)
		if err != nil {
			return nil // opening it says more
		}
		if at, rest = next, behind; info.Mode().Type() != fs.ModeSymlink {
			continue
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok || owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
			return errForeignLink
		}
		to, err := os.Readlink(next)
		if links++; err != nil || links > mostLinks {
			return nil
		}
		at, rest = filepath.Dir(next), to+"/"+rest
		if filepath.IsAbs(to) {
			at = "/"
		}
	}
}
