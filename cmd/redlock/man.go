package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// manCommand writes the manual page, which is made from the texts of --help.
type manCommand struct{}

// Help is what --help shows below the first line.
func (*manCommand) Help() string {
	return `Examples:

    redlock man | man -l -
    redlock man >/usr/local/share/man/man1/redlock.1
`
}

// Run is the command.
func (*manCommand) Run(p *process) error { return write(p.stdout, manualPage(p.parser.Model)) }

// manualPage returns the page in roff, with the macros of man(7).
func manualPage(app *kong.Application) string {
	var b roff
	b.macro("TH", "REDLOCK", "1", "", "redmux")
	b.macro("SH", "NAME")
	b.text("redlock - distributed locks over N independent Redis or Valkey masters")
	b.macro("SH", "SYNOPSIS")
	for _, command := range commands(app) {
		b.text(strings.Replace(usage(command), "redlock ", "", 1), "redlock ")
		b.macro("br")
	}
	b.macro("SH", "DESCRIPTION")
	b.prose(app.Help)
	b.macro("SH", "OPTIONS OF ALL COMMANDS")
	b.flags(app.Flags)
	for _, command := range commands(app) {
		b.macro("SH", strings.ToUpper("redlock "+command.Name))
		b.text(command.Help)
		b.macro("PP")
		b.prose(command.Detail)
		for _, argument := range command.Positional {
			b.item(argument.Summary(), argument.Help)
		}
		b.flags(command.Flags)
	}
	return b.String()
}

// A roff is a page that is being written.
type roff struct{ strings.Builder }

// macro writes a request with its arguments.
func (b *roff) macro(name string, args ...string) {
	b.WriteString("." + name)
	for _, arg := range args {
		b.WriteString(` "` + strings.ReplaceAll(escape(arg), `"`, `\(dq`) + `"`)
	}
	b.WriteString("\n")
}

// text writes a line, after words in bold.
func (b *roff) text(text string, bold ...string) {
	if len(bold) > 0 {
		b.WriteString(`\fB` + escape(strings.Join(bold, "")) + `\fR`)
	} else {
		b.WriteString(`\&`) // a dot or quote at the beginning would be a request
	}
	b.WriteString(escape(text) + "\n")
}

// prose writes paragraphs. Indented ones keep their lines, as in --help.
func (b *roff) prose(text string) {
	for paragraph := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		if !strings.HasPrefix(paragraph, "    ") {
			b.text(strings.ReplaceAll(paragraph, "\n", " "))
			b.macro("PP")
			continue
		}
		b.macro("nf")
		for line := range strings.SplitSeq(paragraph, "\n") {
			b.text(line)
		}
		b.macro("fi")
		b.macro("PP")
	}
}

// item writes a name and its explanation.
func (b *roff) item(name, help string) {
	b.macro("TP")
	b.text("", name)
	b.text(help)
}

func (b *roff) flags(flags []*kong.Flag) {
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		name := "--" + f.Name
		if f.Short != 0 {
			name = fmt.Sprintf("-%c, %s", f.Short, name)
		}
		if !f.IsBool() {
			name += "=" + f.FormatPlaceHolder()
		}
		help := f.Help
		if len(f.Envs) > 0 {
			help += " ($" + strings.Join(f.Envs, ", $") + ")"
		}
		b.item(name, help)
	}
}

// escape escapes backslashes, and hyphens, so that commands can be copied from
// the page.
func escape(text string) string { return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text) }
