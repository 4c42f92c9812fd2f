// Package command has what the commands of this module begin and end with.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// Main reads the command line into f, and does what run does, until the first
// interrupt at most. The second one ends the process. It exits with 1 after an
// error.
func Main[F any](name, about string, f *F, run func(context.Context, *F) error) {
	kong.Parse(f, kong.Name(name), kong.Description(about))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, f)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Write writes a page to a file, or to standard output if its path is "-".
func Write(path string, page func(io.Writer) error) error {
	if path == "-" {
		return page(os.Stdout)
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(page(out), out.Close())
}
