// Package canned is a server that answers lock commands with ready-made replies: every SET is granted, every script says
// that the key was ours, and nothing is stored. What a client costs by itself shows against it, because no answer has to be
// worked out. It excludes nobody and is of no use for anything else.
//
// The endpoints live in one process of their own, so that the client's process pays for the client only. That process is
// this program once more, told by its environment what it is to be, which is why main begins with [Main].
//
// It answers what redlock, rueidis, go-redis, redsync and redislock ask for in a handshake and around a lock; anything else
// is an unknown command, as on a server that is too old for it. Bytes that are no command end their connection.
package canned

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Servers are n endpoints in one process. Its methods may be called by several goroutines at once.
type Servers struct {
	urls    []string
	dir     string
	process *exec.Cmd
	stdin   io.Closer // its end is the process's signal to end
	close   func() error
}

// job tells the process what to serve, in the environment variable jobVariable.
type job struct {
	N       int
	Network string
	Dir     string // for the sockets, where Network is "unix"
}

const (
	jobVariable = "REDMUX_CANNED"
	// maxServers is far beyond any number of masters.
	maxServers = 64
	// patience bounds the process's start and, once more, its end.
	patience = 10 * time.Second
)

// Main serves, and never returns, in a process that [Start] started; elsewhere it does nothing. A main function, or
// TestMain, calls it before it looks at its arguments.
func Main() {
	text, ok := os.LookupEnv(jobVariable)
	if !ok {
		return
	}
	if err := work(text); err != nil {
		fmt.Fprintln(os.Stderr, "canned:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Start starts n endpoints on network, "tcp" or "unix", and waits until all of them listen. The process ends with Close, or
// with this one.
func Start(n int, network string) (*Servers, error) {
	switch {
	case n < 1 || n > maxServers:
		return nil, fmt.Errorf("canned: %d servers: there may be 1 to %d", n, maxServers)
	case network != "tcp" && network != "unix":
		return nil, fmt.Errorf("canned: network %q is neither tcp nor unix", network)
	case os.Getenv(jobVariable) != "":
		// Without this check such a program would start itself for ever.
		return nil, errors.New("canned: this process was started to serve, but its main does not begin with canned.Main")
	}
	// The name is short because a socket's path may have about 100 bytes.
	dir, err := os.MkdirTemp("", "cd")
	if err != nil {
		return nil, fmt.Errorf("canned: %w", err)
	}
	s := &Servers{dir: dir}
	s.close = sync.OnceValue(s.end)
	if err := s.launch(job{N: n, Network: network, Dir: dir}); err != nil {
		return nil, errors.Join(fmt.Errorf("canned: %w", err), s.Close())
	}
	return s, nil
}

// URLs lists where clients connect, as redlock.Config.Nodes takes it. It is not to be changed.
func (s *Servers) URLs() []string { return s.urls }

// PIDs lists the processes that serve: one, for all endpoints.
// It is a list because that of real servers is one.
func (s *Servers) PIDs() []int { return []int{s.process.Process.Pid} }

// Close ends the process and waits for its end. It may be called more than once.
func (s *Servers) Close() error { return s.close() }

// launch starts the process and reads from it where it listens.
func (s *Servers) launch(j job) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	// Without arguments: what they ask of this process is not for that one.
	cmd := exec.Command(own)
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	cmd.Stderr = os.Stderr // what goes wrong there would otherwise be known to nobody
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if s.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.process = cmd
	// A main that does not call Main never says anything. Killing it ends the wait for its line, as the pipe ends with it.
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the process does not say where it listens (is canned.Main called first?): %w", err)
	}
	return json.Unmarshal(line, &s.urls)
}

// end lets the process end by itself, and kills it when it does not.
func (s *Servers) end() error {
	var err error
	if s.process != nil {
		_ = s.stdin.Close() // nothing was written that could be lost
		late := time.AfterFunc(patience, func() { _ = s.process.Process.Kill() })
		err = s.process.Wait()
		late.Stop()
	}
	// The process has removed it, unless it was killed.
	return errors.Join(err, os.RemoveAll(s.dir))
}

// socket is the path of the i-th endpoint.
func (j *job) socket(i int) string {
	return filepath.Join(j.Dir, strconv.Itoa(i))
}
