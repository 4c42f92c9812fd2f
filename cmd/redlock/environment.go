package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/redmux/redmux/cmd/internal/commandline"
	"github.com/redmux/redmux/cmd/redlock/internal/supervise"
)

// passing has the flag of commands that run another one.
type passing struct {
	PassCredentials bool `help:"Leave passwords in the environment of the command, for redlock commands within it."`
}

// heldVariable names the locks that a command runs under, for runs within it:
// fingerprints of what each is called in its deployment, with commas between
// them. What it says is believed only under a run.
const heldVariable = "REDLOCK_HELD"

// mostHeld bounds the variable: the locks of 16 runs with as many resources as
// one may have.
const mostHeld = 1024

// environment returns the environment of a command that runs under locks on
// resources. Without pass, it has no password: neither the one of
// --password-env nor those in URLs (R27). What is left of the URLs does for runs
// within where masters ask for none.
func (d *deployment) environment(pass bool, resources ...string) []string {
	var env []string
	for _, setting := range os.Environ() {
		name, value, _ := strings.Cut(setting, "=")
		switch {
		case name == heldVariable:
		case pass:
			env = append(env, setting)
		case name == d.PasswordEnv && name != "":
		case name == "REDLOCK_NODES" || name == "REDLOCK_DURABLE":
			if urls, ok := withoutPasswords(value); ok {
				env = append(env, name+"="+urls)
			}
		default:
			env = append(env, setting)
		}
	}
	held := d.held()
	for _, resource := range resources {
		held = append(held, d.fingerprint(resource))
	}
	held = held[max(0, len(held)-mostHeld):]
	return append(env, heldVariable+"="+strings.Join(held, ","))
}

// withoutPasswords removes the passwords from a list of URLs. ok is false if one
// cannot be read: then none may be shown.
func withoutPasswords(list string) (text string, ok bool) {
	if !strings.Contains(list, "@") {
		return list, true
	}
	urls, err := commandline.SplitURLs(list)
	if err != nil {
		return "", false
	}
	for i, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil || u.Opaque != "" || strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@") {
			return "", false // a password with a bare / or ? looks like the rest
		}
		if _, secret := u.User.Password(); secret {
			if u.User = url.User(u.User.Username()); u.User.Username() == "" {
				u.User = nil
			}
			raw = u.String()
		}
		urls[i] = strings.ReplaceAll(raw, ",", `\,`)
	}
	return strings.Join(urls, ","), true
}

// held returns what the environment says of the locks that this process runs
// under. A process that has left its run, by env -u REDLOCK_RUN, is under none.
func (d *deployment) held() []string {
	if os.Getenv(supervise.MarkVariable) == "" {
		return nil
	}
	return strings.FieldsFunc(os.Getenv(heldVariable), func(r rune) bool { return r == ',' })
}

// fingerprint stands for a resource of this deployment, whatever it is.
func (d *deployment) fingerprint(resource string) string {
	var urls []string
	for _, raw := range d.Nodes {
		bare, _ := withoutPasswords(raw)
		urls = append(urls, bare)
	}
	slices.Sort(urls)
	hash := sha256.New()
	for _, part := range append(urls, d.Prefix, resource) {
		sum := sha256.Sum256([]byte(part))
		hash.Write(sum[:])
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// notWithin returns an error of usage if this process runs under a lock on one
// of the resources: a wait for it would be one for itself, without end.
func (d *deployment) notWithin(resources ...string) error {
	held := d.held()
	for _, resource := range resources {
		if slices.Contains(held, d.fingerprint(resource)) {
			return usagef("resource %s: this runs under a redlock run or elect with that lock already, and would wait for itself; -n does not wait", quoted(resource))
		}
	}
	return nil
}

// withheld completes the error of a command within a run that lacks a password.
func withheld(text string) string {
	if os.Getenv(supervise.MarkVariable) == "" {
		return text
	}
	return text + " (redlock run and elect keep passwords from their commands, unless they are given --pass-credentials)"
}
