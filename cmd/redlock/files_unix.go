//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errForeignLink is the cause if a file is not opened.
var errForeignLink = errors.New("a link that belongs to another user leads there")

// mostLinks is how many links Linux follows, too.
const mostLinks = 40

// openOwn is os.OpenFile, but returns errForeignLink if the path leads through a
// symbolic link that belongs neither to us nor to root. In a folder such as /tmp
// any user can put a link where we are about to write, or have us read another
// file.
func openOwn(path string, flags int, mode os.FileMode) (*os.File, error) {
	real, err := ownPath(path)
	if err != nil {
		return nil, err
	}
	if !inProc(real) {
		flags |= syscall.O_NOFOLLOW // a link that was put there since
	}
	return os.OpenFile(real, flags, mode)
}

// ownPath returns a path with its links followed, or errForeignLink. Only the
// links of /proc are left: what /dev/stdin leads to may have no name.
func ownPath(path string) (real string, err error) {
	at, rest := "", path
	if filepath.IsAbs(path) {
		at = "/"
	}
	for links := 0; ; {
		name, behind, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		if name == "" {
			return at, nil
		}
		next := filepath.Join(at, name) // at has no links, so .. is its parent
		info, err := os.Lstat(next)
		if err != nil {
			return filepath.Join(next, behind), nil // opening it says more
		}
		if info.Mode().Type() != fs.ModeSymlink {
			at, rest = next, behind
			continue
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok || owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
			return "", errForeignLink
		}
		to, err := os.Readlink(next)
		if links++; err != nil || links > mostLinks || inProc(next) {
			return filepath.Join(next, behind), nil
		}
		if rest = to + "/" + behind; filepath.IsAbs(to) {
			at = "/"
		}
	}
}

// lockTakes bounds the wait for a folder that another process has locked.
const (
	lockTakes = time.Second
	lockPause = 10 * time.Millisecond
)

// lockFolder locks a folder among processes that do the same, until unlock. The
// kernel unlocks it when the process ends, and no file is left.
func lockFolder(path string) (unlock func(), locked bool) {
	folder, err := os.Open(path)
	if err != nil {
		return func() {}, false
	}
	for late := time.Now().Add(lockTakes); ; time.Sleep(lockPause) {
		err = unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(late) {
			return func() { _ = folder.Close() }, err == nil
		}
	}
}

// inProc reports whether a path is one of the kernel's own.
func inProc(path string) bool { return strings.HasPrefix(path, "/proc/") }

// wasClosed reports whether a stream was closed when this process began, as by
// >&- in a shell. The Go runtime opens /dev/null in its place, for reading and
// writing, which >/dev/null does not.
func wasClosed(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	info, err := file.Stat()
	if err != nil || !os.SameFile(info, null) {
		return err != nil
	}
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}
