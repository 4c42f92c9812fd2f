package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCommand writes the completion script of a shell. It is made from
// the grammar, so it has every command and flag.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"One of ${enum}."`
}

// Help is what --help shows below the first line.
func (*completionCommand) Help() string {
	return `Examples:

    redlock completion bash >/etc/bash_completion.d/redlock
    source <(redlock completion zsh)
    redlock completion fish >~/.config/fish/completions/redlock.fish
`
}

// Run is the command.
func (c *completionCommand) Run(p *process) error {
	model := p.parser.Model
	if c.Shell == "fish" {
		return write(p.stdout, fishCompletion(model))
	}
	script := bashCompletion(model)
	if c.Shell == "zsh" {
		script = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + script
	}
	return write(p.stdout, script)
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// bashCompletion uses nothing but compgen, so zsh understands it too
// (bashcompinit).
func bashCompletion(app *kong.Application) string {
	var names []string
	var cases strings.Builder
	for _, command := range commands(app) {
		names = append(names, command.Name)
		fmt.Fprintf(&cases, "\t%s) words=%s ;;\n", command.Name,
			quote(strings.Join(append(flagWords(command.Flags), choices(command)...), " ")))
	}
	return fmt.Sprintf(`_redlock() {
	local cur=${COMP_WORDS[COMP_CWORD]} command='' words='' i
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--)
			COMPREPLY=($(compgen -c -f -- "$cur"))
			return
			;;
		%s) [[ $command ]] || command=${COMP_WORDS[i]} ;;
		esac
	done
	case $command in
	'') words=%s ;;
%s	esac
	COMPREPLY=($(compgen -W "$words "%s -- "$cur"))
	if [[ $cur != -* && $command ]]; then
		COMPREPLY+=($(compgen -f -- "$cur"))
	fi
}
complete -F _redlock redlock
`, strings.Join(names, "|"), quote(strings.Join(names, " ")), cases.String(), quote(strings.Join(flagWords(app.Flags), " ")))
}

func fishCompletion(app *kong.Application) string {
	var b strings.Builder
	flags := func(condition string, all []*kong.Flag) {
		for _, f := range all {
			fmt.Fprintf(&b, "complete -c redlock%s -l %s", condition, f.Name)
			if f.Short != 0 {
				fmt.Fprintf(&b, " -s %c", f.Short)
			}
			if !f.IsBool() {
				b.WriteString(" -r")
			}
			fmt.Fprintf(&b, " -d %s\n", quote(f.Help))
		}
	}
	flags("", app.Flags)
	for _, command := range commands(app) {
		fmt.Fprintf(&b, "complete -c redlock -n __fish_use_subcommand -f -a %s -d %s\n", command.Name, quote(command.Help))
		condition := " -n '__fish_seen_subcommand_from " + command.Name + "'"
		for _, choice := range choices(command) {
			fmt.Fprintf(&b, "complete -c redlock%s -f -a %s\n", condition, choice)
		}
		flags(condition, command.Flags)
	}
	return b.String()
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

// flagWords returns flags as they are typed.
func flagWords(flags []*kong.Flag) (words []string) {
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		words = append(words, "--"+f.Name)
		if f.Short != 0 {
			words = append(words, "-"+string(f.Short))
		}
	}
	return words
}

// choices returns the values of arguments that have few.
func choices(command *kong.Node) (all []string) {
	for _, argument := range command.Positional {
		if argument.Enum != "" {
			all = append(all, argument.EnumSlice()...)
		}
	}
	return all
}

// quote makes a text one word of a shell command.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
