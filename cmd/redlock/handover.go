package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/clock"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/redlock"
)

// A handover is what one process tells the next of a lock, as one word without
// spaces, which users know as the token:
//
//	redlock2.<token>.<TTL in ms>.<end of validity: wall clock>.<boot time>.<boot id>
//	redlock3.<token>.<TTL in ms>.<fencing number>.<wall clock>.<boot time>.<boot id>
//
// The second form is that of a lock with a fencing number. The token of a lock
// with labels is followed by a colon and what follows it in the keys' values, in
// base64url: the label of the client, and that of the lock.
//
// It can release the lock, so it is a secret (R27). The end of the validity is
// only usable on the machine that wrote it, until its next restart: no other
// can compare the times.
type handover struct {
	token redlock.Token
	ttl   time.Duration
	fence uint64 // 0 if the lock has none
	until clock.Moment
	boot  string // the run of the machine that until belongs to, "" if unknown
	pure.Labels
}

// handoverOf returns the handover of a lock as it is now. fence is its number:
// an adopted lock does not know it.
func handoverOf(d *deployment, lock redlock.Lock, ttl time.Duration, fence uint64) handover {
	boot, _ := clock.BootID()
	until := clock.Now().Add(lock.Validity())
	return handover{token: lock.Token(), Labels: pure.Labels{Owner: d.Owner, Label: lock.Label()}, ttl: ttl, fence: fence, until: until, boot: boot}
}

const handoverVersion, fencedVersion = "redlock2", "redlock3"

// reveal returns the word. It is not called String, so that nothing prints it
// by accident.
func (h handover) reveal() string {
	token := h.token.Reveal()
	if h.Labels != (pure.Labels{}) {
		token += ":" + base64.RawURLEncoding.EncodeToString([]byte(h.Labels.String()))
	}
	parts := []string{handoverVersion, token, strconv.FormatInt(h.ttl.Milliseconds(), 10)}
	if h.fence != 0 {
		parts[0] = fencedVersion
		parts = append(parts, strconv.FormatUint(h.fence, 10))
	}
	return strings.Join(append(parts, strconv.FormatInt(h.until.Wall, 10), strconv.FormatInt(h.until.Boot, 10), h.boot), ".")
}

// Format hides the token from every verb.
func (h handover) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, fmt.Sprint(h.token)) }

// errHandover does not show what was read (R27).
var errHandover = errors.New("this is not a token that redlock acquire wrote")

// parseHandover reads what reveal wrote.
func parseHandover(text string) (h handover, err error) {
	version, _, _ := strings.Cut(text, ".")
	n := 6
	if version == fencedVersion {
		n = 7
	}
	parts := strings.SplitN(text, ".", n) // a host's name may have dots
	if len(parts) != n || version != handoverVersion && version != fencedVersion {
		return handover{}, errHandover
	}
	token, labels, labelled := strings.Cut(parts[1], ":")
	if h.token, err = redlock.ParseToken(token); err != nil {
		return handover{}, errHandover
	}
	if labelled {
		text, err := base64.RawURLEncoding.DecodeString(labels)
		value, ok := pure.ParseValue(token + ":" + string(text))
		if err != nil || !ok {
			return handover{}, errHandover
		}
		h.Labels = value.Labels
	}
	ms, err := strconv.ParseInt(parts[2], 10, 48) // more would not fit into a time.Duration
	if err != nil || ms <= 0 {
		return handover{}, errHandover
	}
	h.ttl = time.Duration(ms) * time.Millisecond
	if n == 7 {
		if h.fence, err = strconv.ParseUint(parts[3], 10, 53); err != nil || h.fence == 0 {
			return handover{}, errHandover
		}
		parts = append(parts[:3], parts[4:]...)
	}
	if h.until, err = clock.Parse(parts[3] + " " + parts[4]); err != nil {
		return handover{}, errHandover
	}
	h.boot = parts[5]
	return h, nil
}

// here reports whether the end of the validity can be compared with our clocks.
func (h handover) here() bool {
	boot, ok := clock.BootID()
	return ok && boot == h.boot
}

// adopt makes it a lock of a client with the same owner. Its validity is by the
// clock that gives less; on another machine it has none (R4).
func (h handover) adopt(client *redlock.Client, resource string) (redlock.Lock, error) {
	var until time.Time
	if h.here() {
		until = time.Now().Add(h.until.Sub(clock.Now()))
	}
	return client.Adopt(resource, h.token, h.Label, h.ttl, until)
}

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
