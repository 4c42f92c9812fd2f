package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// FindAll returns the servers that a group is made of: those that the
// environment variable REDMUX_SERVERS names, a list in the form of PATH, so
// that a group mixes products and versions as a deployment in the middle of an
// upgrade does; else the one that Find finds. A name that leads nowhere is an
// error, lest a run covers less than it says.
func FindAll() (paths []string, err error) {
	for _, name := range named() {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("redistest: REDMUX_SERVERS: %w", err)
		}
		paths = append(paths, path)
	}
	if len(paths) > 0 {
		return paths, nil
	}
	path, ok := Find()
	if !ok {
		return nil, ErrNoServer
	}
	return []string{path}, nil
}

// named is what REDMUX_SERVERS lists, without its empty elements.
func named() (names []string) {
	for _, name := range filepath.SplitList(os.Getenv("REDMUX_SERVERS")) {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Introduction returns the product ("redis", "valkey", "redict") and its
// version, as the server itself says.
func (s *Server) Introduction() (product, version string, err error) {
	info, err := s.Do("INFO", "server")
	if err != nil {
		return "", "", err
	}
	text, _ := info.(string)
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		// Every product states the version of Redis that it is compatible with;
		// another product states its own version in a further line.
		switch name, ok := strings.CutSuffix(key, "_version"); {
		case ok && name == "redis" && product == "":
			product, version = name, value
		case ok && (name == "valkey" || name == "redict"):
			product, version = name, value
		}
	}
	if product == "" {
		return "", "", fmt.Errorf("redistest: %s does not say what it is", s.opts.Path)
	}
	return product, version, nil
}
