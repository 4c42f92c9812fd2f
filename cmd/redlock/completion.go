package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCommand writes the completion script of a shell. The script asks this
// program what can follow the words on the line, so it has every command and
// flag, whatever the shell.
type completionCommand struct {
	Shell string   `arg:"" enum:"bash,zsh,fish,words" help:"One of bash, zsh and fish."`
	Words []string `arg:"" optional:"" passthrough:"" hidden:"" help:"With words, what stands before the cursor."`
}

// Help is what --help shows below the first line.
func (*completionCommand) Help() string {
	return `Examples:

    redlock completion bash >/etc/bash_completion.d/redlock
    source <(redlock completion zsh)
    redlock completion fish >~/.config/fish/completions/redlock.fish
`
}

// completionScripts are the scripts by shell. That of bash uses nothing but
// compgen, so zsh understands it too (bashcompinit).
var completionScripts = map[string]string{
	"bash": bashCompletion,
	"zsh":  "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + bashCompletion,
	"fish": "complete -c redlock -a '(redlock completion words -- (commandline -opc)[2..] 2>/dev/null)'\n",
}

const bashCompletion = `_redlock() {
	local cur=${COMP_WORDS[COMP_CWORD]} i
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			COMPREPLY=($(compgen -c -f -- "$cur"))
			return
		fi
	done
	COMPREPLY=($(compgen -W "$(redlock completion words -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null | cut -f 1)" -- "$cur"))
	if [[ $cur != -* && $COMP_CWORD -gt 1 ]]; then
		COMPREPLY+=($(compgen -f -- "$cur"))
	fi
}
complete -F _redlock redlock
`

// Run is the command.
func (c *completionCommand) Run(p *process) error {
	if c.Shell == "words" {
		return write(p.stdout, completions(p.parser.Model, c.Words))
	}
	return write(p.stdout, completionScripts[c.Shell])
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// completions returns what can follow some words: a line for each, with a tab
// before what it is.
func completions(app *kong.Application, before []string) string {
	var lines strings.Builder
	add := func(word, help string) { fmt.Fprintf(&lines, "%s\t%s\n", word, help) }
	flags := func(all []*kong.Flag) {
		for _, f := range all {
			if f.Short != 0 {
				add("-"+string(f.Short), f.Help)
			}
			add("--"+f.Name, f.Help)
		}
	}
	among, command := commands(app), (*kong.Node)(nil)
	for _, word := range before {
		if i := slices.IndexFunc(among, func(n *kong.Node) bool { return n.Name == word }); i >= 0 {
			command, among = among[i], among[i].Children
		}
	}
	for _, next := range among {
		add(next.Name, next.Help)
	}
	flags(app.Flags)
	if command != nil {
		flags(command.Flags)
		for _, argument := range command.Positional {
			if argument.Enum == "" {
				continue
			}
			for _, choice := range argument.EnumSlice() {
				add(choice, argument.Help)
			}
		}
	}
	return lines.String()
}

// commands returns the visible commands.
func commands(app *kong.Application) (all []*kong.Node) {
	for _, node := range app.Children {
		if !node.Hidden {
			all = append(all, node)
		}
	}
	return all
}
