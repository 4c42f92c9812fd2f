package redlock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/kind"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
)

// Allow overrides, one by one, the checks that a server must pass before it
// gets a vote (R22): its role and mode, its permissions, its MaxTTL, and that
// no other node is the same server. The user is then responsible for what it
// allows. The zero value allows nothing.
type Allow = multiplex.Allow

// aclRules is how to grant what a user of this package needs.
const aclRules = "ACL SETUSER <user> resetchannels ~<prefix>* " + pure.Rights

// prelude returns the commands by which each handshake checks that the node
// knows the scripts and that the user may run them on our keys. A user with the
// right to SET but not to EVAL would leave orphans, and is refused (R22).
//
// The key of the trial does not exist, so a script on trial gets no further
// than its GET. The user's rights to the scripts' other commands are checked by
// those commands.
func prelude(config *Config, kinds *kind.Kinds) (steps []conn.Step) {
	// No lock has this name: the DEL of the trial is executed.
	resource := wire.TrialName + rand.Text()
	key := config.Prefix + resource
	value := wire.Value{Token: wire.Veil(Token{})}
	// Each native form has a step of the same name. If the server lacks the
	// command, or the user may not run it, the trial is refused, and the group
	// uses the script (R25).
	release := kinds.Encoder.Release(nil, resource, &value)
	for i := range kind.ReleaseForms {
		native := kind.ReleaseForms[i].Append(nil, release)
		steps = append(steps, conn.Step{Name: kind.ReleaseForms[i].Name, Command: native, Check: refused, Optional: true})
	}
	if kinds.Tells {
		steps = append(steps, tryClaimForm(kinds, wire.TrialName+rand.Text())...)
	}
	require := func(name string, command []byte, check func(resp.Value) error) {
		step := conn.Step{Name: name, Command: command, Check: permitted(name, check), Optional: config.Allow.MissingPermissions}
		steps = append(steps, step)
	}
	for _, s := range wire.Scripts(config.Fenced) {
		require("SCRIPT LOAD", s.Load(), s.Loaded)
	}
	const ofScript = "EVALSHA of a script with GET"
	require(ofScript, release.Bytes, refused)
	require(ofScript, kinds.Encoder.Extend(nil, resource, &value, time.Second, time.Second).Bytes, refused)
	if config.Fenced {
		_, claim := kinds.Plain().Claim(&kind.Grant{Name: resource, Value: value, TTL: time.Second}, nil)
		require("EVALSHA of a script with TIME", claim.Bytes, stale)
		require(ofScript, resp.AppendCommand(nil, "EVALSHA", wire.Floor.Digest, "2", key+wire.FenceSuffix, key, "", pure.NoRun, "0"), refused)
	}
	require("DEL", resp.AppendCommand(nil, "DEL", key), nil)
	require("PTTL", resp.AppendCommand(nil, "PTTL", key), nil)
	require("PEXPIRE", resp.AppendCommand(nil, "PEXPIRE", key, "1000"), nil)
	return steps
}

// tryClaimForm returns the trial of SET … NX GET, on a new key of its own. The
// form is used only with the meaning of null proven here: the first SET is
// granted, the second is refused with the first one's value, and has changed
// nothing.
func tryClaimForm(kinds *kind.Kinds, resource string) (steps []conn.Step) {
	form := &kind.ClaimForms[0]
	key, tokens := kinds.Prefix+resource, [2]wire.Characters{kinds.Tokens.Next(), kinds.Tokens.Next()}
	first, second := wire.Value{Token: wire.Veil(tokens[0])}, wire.Value{Token: wire.Veil(tokens[1])}
	value := func(v resp.Value) error {
		if found, _ := pure.ParseValue(string(v.Bytes())); found.Owner == "" || found.Token != string(tokens[0][:]) {
			return fmt.Errorf("redlock: the trial of %s answered %q, not the value", form.Name, v.Type())
		}
		return nil
	}
	granted := func(v resp.Value) error {
		if wire.JudgeSetGet(v) != multiplex.Granted {
			return fmt.Errorf("redlock: the trial of %s answered %q, not null", form.Name, v.Type())
		}
		return nil
	}
	steps = []conn.Step{
		{Command: form.Append(nil, kinds.Set(nil, resource, &first, trialTTL)), Check: granted},
		{Command: form.Append(nil, kinds.Set(nil, resource, &second, trialTTL)), Check: value},
		{Command: resp.AppendCommand(nil, "GET", key), Check: value},
		{Command: resp.AppendCommand(nil, "DEL", key)},
	}
	for i := range steps {
		steps[i].Name, steps[i].Optional = form.Name, true
	}
	return steps
}

// trialTTL is the life of a key that only a trial sets.
const trialTTL = time.Second

// remarks returns a warning about commands refused in the prelude. Locks need
// them.
func remarks(s *conn.Server) []string {
	var lacking []string
	for _, step := range s.Refused {
		if !isForm(step) && !slices.Contains(lacking, step) {
			lacking = append(lacking, step)
		}
	}
	if lacking == nil {
		return nil
	}
	return []string{"the trial of what locks need failed: " + strings.Join(lacking, ", ") + " (" + aclRules + ")"}
}

// isForm reports whether a step of the prelude is the trial of a native form.
func isForm(step string) bool {
	return slices.ContainsFunc(slices.Concat(kind.ReleaseForms, kind.ClaimForms), func(f multiplex.Form) bool { return f.Name == step })
}

// errStep is the error of a step refused for a reason other than a missing
// permission. Package conn adds the node's own words.
var errStep = errors.New("redlock: locks need it")

// permitted checks a step's reply, and explains a missing permission. It names
// the command and never a key (R27).
func permitted(name string, check func(resp.Value) error) func(resp.Value) error {
	return func(v resp.Value) error {
		switch {
		case conn.ClassOf(v) == conn.ClassNoPerm:
			return &multiplex.PreflightError{
				Check: "permissions", Found: "the user may not run " + name,
				Advice: "grant what is missing: " + aclRules + "; Allow.MissingPermissions overrides this",
				Err:    multiplex.ErrPermissions,
			}
		case v.IsError():
			return errStep
		case check != nil:
			return check(v)
		}
		return nil
	}
}

// stale checks the reply to an ungrantable number.
func stale(v resp.Value) error {
	if !kind.IsStale(v) {
		return fmt.Errorf("redlock: the trial of a script answered %q, not that the number is too low", v.Type())
	}
	return nil
}

func refused(v resp.Value) error {
	if wire.JudgeScript(v) != multiplex.Refused {
		return fmt.Errorf("redlock: the trial of a script answered %q, not 0", v.Type())
	}
	return nil
}
