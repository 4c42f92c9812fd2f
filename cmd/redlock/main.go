// Command redlock takes locks of a deployment of N masters from shells, cron and
// by hand: it runs a command under a lock, acquires, extends and releases locks,
// and shows who holds what.
//
//	export REDLOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379
//	redlock init
//	redlock run -n nightly -- ./report.sh
//	redlock acquire --token-file deploy.token deploy
//	redlock release --token-file deploy.token deploy
//
// It is a client like any other: all clients of a deployment name the same
// masters, prefix and MaxTTL. The --help of each command has examples. The exit
// codes are in exit.go; they are those of sysexits.h and of shells.
//
// A command is a struct in a file of its own. Its fields are the flags (package
// kong), its Help method returns the text of --help, and its Run method does the
// work, given the process that it runs in and the deployment that the flags
// name. The error of Run decides the exit code. A command uses the streams and
// signals of the process, not those of package os, so tests run it without a
// process of its own.
//
// The packages in internal do the rest: supervise runs a command under a lock,
// probe asks a node what it is, and doctor judges the answers.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/redmux/redmux/cmd/redlock/internal/supervise"
)

func main() {
	supervise.GuardMain()
	supervise.AdoptOrphans()
	// The buffer is for bursts: package os/signal drops what does not fit, and a
	// signal that is forwarded must not be lost.
	signals := make(chan os.Signal, 64)
	// A terminal that was closed ends the command as an interrupt does.
	supervise.Listen(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// If the reader of our output goes away ("redlock nodes | head -1"), writes
	// fail, and the process can still release what it holds. SIGPIPE is received
	// and not ignored, since a command that we run would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, signals))
}
