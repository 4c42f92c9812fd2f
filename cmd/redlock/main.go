// Command redlock takes locks of a deployment of N masters from shells, cron and by hand: it runs a command under a lock,
// acquires, extends and releases one, and shows who holds what.
//
//	export REDLOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379
//	redlock run -n nightly -- ./report.sh
//	redlock acquire --ttl 5m --token-file deploy.token deploy
//	redlock release --token-file deploy.token deploy
//
// It is a client as any other: all clients of a deployment name the same masters, prefix and MaxTTL. Each command has examples
// in its --help. The exit codes are in exit.go; they are those of sysexits.h and of shells.
//
// A command is a struct in a file of its own: its fields are the flags (package kong), its Help method the text behind --help,
// its Run method the work, which gets the process that it runs in and the deployment that the flags name. What it returns
// decides the exit code. It touches nothing of package os that the process hands it, so that tests run it without one.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if id, ok := guardOf(os.Args); ok {
		beGuard(id)
		os.Exit(exitFailed)
	}
	// Room for a burst: package os/signal drops what does not fit, and a signal that is to be passed on must not be lost.
	signals := make(chan os.Signal, 64)
	// A terminal that was closed ends the command as an interrupt does.
	listen(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A reader that went away ("redlock nodes | head -1") must not kill the process before it has released what it holds;
	// writing then fails as to any other file. The signal is taken and not ignored, since a command that we run would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, signals))
}
