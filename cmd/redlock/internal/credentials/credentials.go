// Package credentials gets passwords that change for the commands: from a file,
// or from the output of a command. No error shows what is in them.
package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/redmux/redmux/conn"
)

// A Source returns credentials, as conn.Config.Credentials does.
type Source func(context.Context) (conn.Credentials, error)

const (
	// longest bounds a file and an output. It is more than any password that
	// servers take.
	longest = 64 << 10
	// lookEvery is how long a password of a file may be used before the file is
	// read again.
	lookEvery = 10 * time.Second
	// together is how old an answer of a command may be: the nodes of one
	// deployment, dialed at the same time, share a run.
	together = time.Second
	// waitDelay is how long a command that was killed may keep its output open.
	waitDelay = 100 * time.Millisecond
)

// File reads the password from a file, which has one line. It is read at each
// call, and what it had is used for ten seconds at most.
func File(path string) Source {
	return func(context.Context) (conn.Credentials, error) {
		text, err := read(path)
		if err != nil {
			return conn.Credentials{}, err
		}
		password, err := line(text)
		if err != nil {
			return conn.Credentials{}, fmt.Errorf("the file %s: %w", path, err)
		}
		return conn.Credentials{Password: password, Expires: time.Now().Add(lookEvery)}, nil
	}
}

// Exposed reports whether any user of the machine may read the file.
func Exposed(path string) bool {
	info, err := os.Stat(path)
	return err == nil && forOthers(info.Mode())&0o004 != 0
}

// read returns a file's content. A pipe could make it wait, and a user who may
// write to the file could have this client be another one.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	case forOthers(info.Mode())&0o002 != 0:
		return nil, fmt.Errorf("any user may write to the file %s: chmod o-w", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, longest+1))
}

// line returns the only line of a text.
func line(text []byte) (string, error) {
	if len(text) > longest {
		return "", fmt.Errorf("it has more than %d bytes", longest)
	}
	text, _ = bytes.CutSuffix(text, []byte("\n"))
	text, _ = bytes.CutSuffix(text, []byte("\r"))
	switch {
	case len(text) == 0:
		return "", errors.New("it is empty")
	case bytes.ContainsAny(text, "\n\r\x00"):
		return "", errors.New("it has more than one line")
	}
	return string(text), nil
}

// Command runs a command line in a shell, and reads credentials from its
// standard output: a password in one line, or a JSON object with username,
// password and expires, of which the first and the last may be missing. It runs
// for no longer than the context of the call.
func Command(command string) Source {
	s := &shared{command: command, turn: make(chan struct{}, 1)}
	return s.ask
}

// A shared command runs once for all who ask at the same time.
type shared struct {
	command string
	turn    chan struct{} // holds a token of the one that runs

	// The holder of the turn owns the following.
	at  time.Time
	cr  conn.Credentials
	err error
}

func (s *shared) ask(ctx context.Context) (conn.Credentials, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return conn.Credentials{}, ctx.Err()
	}
	defer func() { <-s.turn }()
	if !s.at.IsZero() && time.Since(s.at) < together {
		return s.cr, s.err
	}
	cr, err := run(ctx, s.command)
	if ctx.Err() != nil {
		return cr, ctx.Err() // others have more time
	}
	s.at, s.cr, s.err = time.Now(), cr, err
	return cr, err
}

// run runs the command once. Its standard error is thrown away: it may have
// secrets, too.
func run(ctx context.Context, command string) (conn.Credentials, error) {
	var out output
	cmd := exec.CommandContext(ctx, shell, shellFlag, command)
	cmd.Stdout, cmd.WaitDelay = &out, waitDelay
	alone(cmd)
	if err := cmd.Run(); err != nil {
		if out.full {
			err = fmt.Errorf("it wrote more than %d bytes", longest)
		}
		return conn.Credentials{}, fmt.Errorf("--credentials-command: %w", err)
	}
	cr, err := parse(out.text)
	if err != nil {
		return conn.Credentials{}, fmt.Errorf("--credentials-command: its output: %w", err)
	}
	return cr, nil
}

// An output takes what a command writes, up to a bound.
type output struct {
	text []byte
	full bool
}

// Write implements io.Writer. Its error ends the command.
func (o *output) Write(p []byte) (int, error) {
	if len(o.text)+len(p) > longest {
		o.full = true
		return 0, errors.New("too long")
	}
	o.text = append(o.text, p...)
	return len(p), nil
}

// errForm quotes nothing: encoding/json would quote a part of the output.
var errForm = errors.New(`neither a password in one line, nor {"username": …, "password": …, "expires": "2026-01-02T15:04:05Z"}`)

func parse(text []byte) (conn.Credentials, error) {
	if trimmed := bytes.TrimSpace(text); !bytes.HasPrefix(trimmed, []byte("{")) {
		password, err := line(text)
		return conn.Credentials{Password: password}, err
	}
	var said struct {
		Username string    `json:"username"`
		Password string    `json:"password"`
		Expires  time.Time `json:"expires"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // an end with another name would be none
	if d.Decode(&said) != nil || said.Password == "" {
		return conn.Credentials{}, errForm
	}
	if _, err := d.Token(); err != io.EOF {
		return conn.Credentials{}, errForm
	}
	return conn.Credentials{Username: said.Username, Password: said.Password, Expires: said.Expires}, nil
}
