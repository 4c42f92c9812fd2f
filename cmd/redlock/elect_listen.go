package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/redmux/redmux/internal/errtext"
)

// listenOn listens on host:port, or on unix:PATH. An error is one of usage.
func listenOn(address string) (net.Listener, error) {
	var listener net.Listener
	var err error
	switch path, local := strings.CutPrefix(address, "unix:"); {
	case local && path == "":
		return nil, usagef("--listen unix: names no socket") // the system would make up a name
	case local:
		listener, err = listenAt(path)
	default:
		listener, err = net.Listen("tcp", address)
	}
	if err != nil {
		return nil, usagef("--listen %s: %s", quoted(address), errtext.Text(err)) // without the address once more
	}
	return listener, nil
}

// listenAt listens on a socket, and replaces one whose process was killed, which
// does not remove it. Candidates on one path take turns, by a lock on the folder:
// otherwise one could take away the socket of another that has just replaced it,
// or that does not listen yet. Without the lock, nothing is removed.
func listenAt(path string) (net.Listener, error) {
	unlock, locked := lockFolder(filepath.Dir(path))
	defer unlock()
	listener, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && locked && abandoned(path) {
		if err = os.Remove(path); err == nil {
			listener, err = net.Listen("unix", path)
		}
	}
	return listener, err
}

// abandoned reports whether a socket's process is gone.
func abandoned(path string) bool {
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
