package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// helpCommand explains a command.
type helpCommand struct {
	Topic []string `arg:"" optional:"" name:"command" help:"The command to explain; without it, all are listed."`
}

// Help is what --help shows below the first line.
func (*helpCommand) Help() string {
	return `Examples:

    redlock help run
    redlock help fence reset
    redlock help
`
}

// Run is the command.
func (c *helpCommand) Run(p *process) error {
	among := commands(p.parser.Model)
	for i, word := range c.Topic {
		at := slices.IndexFunc(among, func(command *kong.Node) bool { return command.Name == word })
		if at < 0 {
			return usagef("there is no command %s (see redlock --help)", quoted(strings.Join(c.Topic[:i+1], " ")))
		}
		among = among[at].Children
	}
	// Package kong prints the text while it parses, and then complains about
	// missing arguments.
	if _, err := p.parser.Parse(append(c.Topic, "--help")); err != nil && !p.explained {
		return err
	}
	return nil
}

// versionCommand prints the version.
type versionCommand struct{}

// Help is what --help shows below the first line.
func (*versionCommand) Help() string {
	return `Examples:

    redlock version
`
}

// Run is the command.
func (*versionCommand) Run(p *process) error { return write(p.stdout, version()+"\n") }

// Package kong does not know that the arguments after "--" are a command of
// their own, so its summary of redlock run is misleading.

// correctGrammar corrects what package kong says about the arguments of redlock
// run.
func correctGrammar(text string) string {
	return strings.Replace(text, "<command> ...", "-- <command> ...", 1)
}

// correctUsage corrects the first summary of redlock run in a text.
func correctUsage(text string) string {
	const grammar = "<resource> <command> ..."
	return strings.Replace(text, grammar+" [flags]", "[flags] "+correctGrammar(grammar), 1)
}

// printHelp prints the text of --help, as wide as the terminal.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	out := ctx.Stdout
	if width := widthOf(out); width > 0 && os.Getenv("COLUMNS") == "" {
		// The text is corrected in memory, where package kong finds no terminal
		// to measure.
		if err := os.Setenv("COLUMNS", strconv.Itoa(width)); err == nil {
			defer os.Unsetenv("COLUMNS")
		}
	}
	var text bytes.Buffer
	ctx.Stdout = &text
	defer func() { ctx.Stdout = out }()
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return fmt.Errorf("help: %w", err)
	}
	_, err := io.WriteString(out, correctUsage(text.String()))
	return err
}
