package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tokenSource has the flag for the source of a token. The token is not an
// argument: other users of the machine can read command lines.
type tokenSource struct {
	TokenFile string `xor:"source" placeholder:"FILE" help:"File that redlock acquire wrote; - is standard input. Without this flag, the token is in the environment variable REDLOCK_TOKEN."`
}

// tokenVariable is the environment variable that may hold a token.
const tokenVariable = "REDLOCK_TOKEN"

// mostToken bounds what is read. A token is far shorter.
const mostToken = 1024

// read returns the token.
func (s *tokenSource) read(p *process) (handover, error) {
	text, err := unlessInterrupted(p, func() (string, error) { return s.text(p) })
	if err != nil {
		return handover{}, err
	}
	h, err := parseHandover(strings.TrimSpace(text))
	if err != nil {
		return handover{}, &exitError{exitUsage, err}
	}
	return h, nil
}

func (s *tokenSource) text(p *process) (string, error) {
	from := p.stdin
	switch s.TokenFile {
	case "":
		if text := os.Getenv(tokenVariable); text != "" {
			return text, nil
		}
		return "", usagef("no token: name a file with --token-file, or set %s", tokenVariable)
	case "-":
	default:
		file, err := openOwn(s.TokenFile, os.O_RDONLY, 0)
		if err != nil {
			return "", usagef("--token-file %s: %w", quoted(s.TokenFile), causeOf(err))
		}
		defer file.Close()
		from = file
	}
	data, err := io.ReadAll(io.LimitReader(from, mostToken))
	if err != nil {
		return "", usagef("--token-file %s: %w", quoted(s.TokenFile), causeOf(err))
	}
	return string(data), nil
}

// remove removes the file with the token, if it is a regular file: a link, such
// as /dev/stdin, stays.
func (s *tokenSource) remove() error {
	if info, err := os.Lstat(s.TokenFile); err != nil || !info.Mode().IsRegular() || s.TokenFile == "-" {
		return nil
	}
	if err := os.Remove(s.TokenFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--token-file %s: it could not be removed: %w", quoted(s.TokenFile), causeOf(err))
	}
	return nil
}

// A tokenSink receives a token: a file that only its owner may read, or
// standard output. The file is created before anything is locked: if the token
// could not be written, nothing could release the lock.
type tokenSink struct {
	stdout io.Writer
	file   *os.File // in the same folder as path; nil for standard output
	path   string   // the file to replace
	named  string   // the path as the user gave it, "" for standard output
}

func openTokenSink(p *process, path string) (*tokenSink, error) {
	if path == "" || path == "-" {
		if wasClosed(p.stdout) {
			return nil, usagef("standard output is closed: there is nowhere to write the token; use --token-file, or >/dev/null if it is not wanted")
		}
		return &tokenSink{stdout: p.stdout}, nil
	}
	// Replace the file, not the link that leads to it, and nothing like
	// /dev/null or the pipe behind /dev/stdout.
	named := path
	path, err := ownPath(path)
	if err != nil {
		return nil, usagef("--token-file %s: %w", quoted(named), err)
	}
	if inProc(path) {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, usagef("--token-file %s: it is not a regular file", quoted(named))
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("--token-file %s: no file can be created there: %w", quoted(named), causeOf(err))
	}
	return &tokenSink{file: file, path: path, named: named}, nil
}

// write writes the token. A process that reads the file sees the old token or
// the new one, and never a part.
func (s *tokenSink) write(h handover) error {
	if s.file == nil {
		_, err := fmt.Fprintln(s.stdout, h.reveal())
		return err
	}
	_, err := fmt.Fprintln(s.file, h.reveal())
	// Without Sync, a crash may leave an empty file, and the lock until its TTL
	// ends.
	err = errors.Join(err, s.file.Sync(), s.file.Close())
	if err == nil {
		err = os.Rename(s.file.Name(), s.path)
	}
	if err != nil {
		return fmt.Errorf("--token-file %s: the token could not be written: %w", quoted(s.named), causeOf(err))
	}
	s.file = nil
	return nil
}

// discard removes the file unless write has succeeded.
func (s *tokenSink) discard() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
}
