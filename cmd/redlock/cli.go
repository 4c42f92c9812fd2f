package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/redmux/redmux/cmd/internal/commandline"
	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/redlock/admin"
)

// cli is the command line. Each field is a command.
type cli struct {
	deployment `group:"Deployment:"`

	VersionFlag kong.VersionFlag `name:"version" help:"Print the version and exit."`

	Run     runCommand     `cmd:"" help:"Run a command under a lock that renews itself."`
	Elect   electCommand   `cmd:"" help:"Run a command on one of several machines, the one that leads."`
	Acquire acquireCommand `cmd:"" help:"Take a lock and write its token."`
	Extend  extendCommand  `cmd:"" help:"Lengthen a lock that redlock acquire took."`
	Release releaseCommand `cmd:"" help:"Release a lock that redlock acquire took, or by force one whose holder is dead."`

	Status statusCommand `cmd:"" help:"Show who holds a resource, node by node."`
	List   listCommand   `cmd:"" help:"Show what is locked, by whom and for how long."`
	Init   initCommand   `cmd:"" help:"Open the deployment: an operator does that once, before the first lock."`
	Fence  fenceCommand  `cmd:"" help:"Reset the fencing numbers of the masters."`
	Nodes  nodesCommand  `cmd:"" help:"Show what the masters are and how they are doing."`
	Doctor doctorCommand `cmd:"" help:"Check that the deployment is safe for locks."`

	Completion completionCommand `cmd:"" help:"Write the completion script of a shell."`
	Help_      helpCommand       `cmd:"" name:"help" help:"Explain a command, like its --help."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
}

// Help is what --help shows below the list of commands.
func (*cli) Help() string { return "" }

const description = `Distributed locks over N independent Redis or Valkey masters (the Redlock algorithm), for shells, cron and operators.

Name the masters with --nodes or REDLOCK_NODES. All clients of a deployment name the same masters, prefix and MaxTTL.

Exit codes: 0 done, 2 redlock doctor found the deployment unsafe, 64 bad command line, 69 no quorum of masters, 70 the lock was lost, 75 another client holds it, 78 redlock init found masters in use, 1 anything else, 128 + N ended by signal N; 141, without a message, if the reader of standard output is gone.

A duration is a number with a unit, such as 500ms, 30s or 1h30m. A number without one counts seconds: -w 5.`

// run is the program: it parses the arguments, runs the command that they name
// and returns the exit code. Signals to the process arrive on the channel; a
// command that needs others asks package os/signal to send them there too. An
// error is printed on stderr, in one line.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, signals chan os.Signal) int {
	var line cli
	p := &process{stdin: stdin, stdout: stdout, stderr: stderr, signals: signals, begun: time.Now()}
	var err error
	p.parser, err = kong.New(&line,
		kong.Name("redlock"),
		kong.Description(description),
		kong.Writers(stdout, io.Discard),
		kong.Exit(func(int) { p.explained = true }),
		kong.Help(printHelp),
		commandline.Bytes(),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), durationMapper{}),
		vars(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	)
	if err != nil {
		panic(fmt.Sprintf("redlock: the grammar of the command line: %v", err))
	}
	chosen, err := p.parser.Parse(args)
	if p.explained {
		return exitOK
	}
	if isClosedPipe(err) {
		return p.fail(err) // the reader of --help is gone
	}
	if err == nil {
		err = cmp.Or(commandline.Empty(chosen), beforeCommand(chosen))
	}
	if err != nil {
		return p.fail(&exitError{exitUsage, badLine(err, chosen)})
	}
	return p.fail(chosen.Run(p, &line.deployment))
}

// badLine says what is wrong with the command line, and which --help to read.
// line is nil if it could not be parsed.
func badLine(err error, line *kong.Context) error {
	if parse := (*kong.ParseError)(nil); errors.As(err, &parse) {
		line = parse.Context
	}
	command := "redlock"
	if line != nil && line.Selected() != nil {
		command = line.Selected().FullPath()
	}
	return fmt.Errorf("%s (see %s --help)", correctGrammar(err.Error()), command)
}

// A process is what a command sees of the process that it runs in.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	signals        chan os.Signal
	parser         *kong.Kong // for commands that print what is made from the grammar
	begun          time.Time  // when the process began to work
	explained      bool       // package kong has printed --help or --version
}

// fail prints an error unless it is silent, and returns the exit code. If the
// reader of standard output is gone, as head(1) is after its lines, it prints
// nothing, and the exit code is the one that a shell shows for SIGPIPE.
func (p *process) fail(err error) int {
	if isClosedPipe(err) {
		return exitPipe
	}
	if !silent(err) {
		text := message(err)
		if conn.ErrorClass(err) == conn.ClassNoAuth {
			text = withheld(text)
		}
		p.say("%s", text)
	}
	return exitCode(err)
}

// vars are what the grammar has from elsewhere.
func vars() kong.Vars {
	return kong.Vars{
		"version":     version(),
		"list_limit":  strconv.Itoa(admin.DefaultListLimit),
		"list_pause":  admin.DefaultListPause.String(),
		"list_within": admin.DefaultListTime.String(),
	}
}

// version returns the version of the module and of Go.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "redlock (unknown version)"
	}
	return fmt.Sprintf("redlock %s (%s)", info.Main.Version, info.GoVersion)
}
