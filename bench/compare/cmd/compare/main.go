// Command compare measures this module beside other implementations, on real
// servers that it starts, and writes a report and a chart. Package compare has
// the implementations, internal/window measures one window in a process of its
// own, internal/report makes ratios and tables.
//
//	go run ./cmd/compare                              everything; 40 minutes
//	go run ./cmd/compare --nodes 5 --network tcp      some cases only
//	go run ./cmd/compare --from-json data.json        the report again, nothing measured
//	go run ./cmd/compare --quick --assert             for CI: most of a minute
//
// It exits with 0 on success, 1 if something could not be measured or an
// assertion failed, and 2 if the command line is wrong. An interrupt ends it
// and the servers; with --json, what was measured until then is kept.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/redmux/redmux/bench/compare/internal/window"
)

func main() {
	window.Main() // does not return in a child process
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	var usage usageError
	switch {
	case errors.Is(err, errHelp) || err == nil:
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}
