package window

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// slack is how much longer than its job a child may take to start, to open its
// peer, and to end.
const slack = 15 * time.Second

// Run does the job in a child process and waits for its end. Unless it is nil,
// on is called with each stage that the child reports and the child's process
// id; the child does not wait for it. An error means that there is no result:
// the child could not be started, died, or had to be killed because it did not
// end.
func Run(ctx context.Context, job Job, on func(s Stage, pid int)) (Result, error) {
	// The child has a clock of its own that ends it; this one is for a child
	// that is not even able to do that.
	ctx, cancel := context.WithTimeout(ctx, job.length()+slack)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return Result{}, fmt.Errorf("window: %w", err)
	}
	var trouble strings.Builder
	child := exec.CommandContext(ctx, self)
	child.Env = append(os.Environ(), childVariable+"=1")
	child.Stderr = &trouble
	// Standard input stays open until the child has ended: its end tells the
	// child that its parent is gone.
	in, err := child.StdinPipe()
	if err != nil {
		return Result{}, fmt.Errorf("window: %w", err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return Result{}, fmt.Errorf("window: %w", err)
	}
	if err := child.Start(); err != nil {
		return Result{}, fmt.Errorf("window: %w", err)
	}
	err = json.NewEncoder(in).Encode(job)
	var result *Result
	if err == nil {
		result, err = read(out, child.Process.Pid, on)
	}
	_ = in.Close()
	if ended := child.Wait(); result == nil {
		return Result{}, fmt.Errorf("window: %s: %w: %s", job.Peer, cause(ctx, ended, err), firstLines(trouble.String()))
	}
	return *result, nil
}

// read reads stages until the result, or until the child is gone.
func read(out io.Reader, pid int, on func(s Stage, pid int)) (*Result, error) {
	lines := json.NewDecoder(out)
	for {
		var m message
		switch err := lines.Decode(&m); {
		case err != nil:
			return nil, err
		case m.Result != nil:
			return m.Result, nil
		case on != nil:
			on(m.Stage, pid)
		}
	}
}

// cause returns the first reason for which there is no result.
func cause(ctx context.Context, all ...error) error {
	for _, err := range append([]error{ctx.Err()}, all...) {
		if err != nil {
			return err
		}
	}
	return errors.New("the child gave no result")
}

// firstLines returns enough of a panic to find its cause.
func firstLines(s string) string {
	const most = 2000
	if len(s) > most {
		s = s[:most] + " …"
	}
	return strings.TrimSpace(s)
}
