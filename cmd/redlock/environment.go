package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/redmux/redmux/cmd/internal/commandline"
	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
)

// passing has the flag of commands that run another one.
type passing struct {
	PassCredentials bool `help:"Leave passwords in the environment of the command, for redlock commands within it."`
}

// heldVariable names the locks that a command runs under, for runs within it:
// fingerprints of what each is called in its deployment, with commas between
// them, and sharedMark behind those that are shared. Each lock has two: one by
// the masters' URLs, and one by the deployment's id, which is the same whatever
// the masters are called.
const (
	heldVariable = "REDLOCK_HELD"
	sharedMark   = "/shared"
)

// ofALock are the variables that tell a command, or a hook, of its lock. Each
// gets its own. What this process has inherited is of a run around it.
var ofALock = []string{"REDLOCK_RESOURCE", "REDLOCK_UNTIL", "REDLOCK_FENCE", outcomeVariable, heldVariable}

// mostHeld bounds the variable: the locks of 16 runs with as many resources as
// one may have.
const mostHeld = 2 * 1024

// environment returns the environment of a command that runs under locks on
// resources, shared or not. Without pass, it has no password: neither the one of
// --password-env nor those in URLs (R27). What is left of the URLs does for runs
// within where masters ask for none.
func (d *deployment) environment(client *redlock.Client, pass, shared bool, resources ...string) []string {
	var env []string
	for _, setting := range os.Environ() {
		name, value, _ := strings.Cut(setting, "=")
		switch {
		case slices.Contains(ofALock, name):
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
		for _, name := range append(d.names(client), d.urls()) {
			if name = d.fingerprint(name, resource); shared {
				name += sharedMark
			}
			held = append(held, name)
		}
	}
	held = held[max(0, len(held)-mostHeld):]
	return append(env, heldVariable+"="+strings.Join(held, ","))
}

// withoutPasswords removes the passwords from a list of URLs. ok is false if one
// cannot be read, or names sentinels: then none may be shown.
func withoutPasswords(list string) (text string, ok bool) {
	if strings.Contains(strings.ToLower(list), "+sentinel:") {
		return "", false // a parameter may be a password
	}
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
// under. A process that has left its run, by env -u REDLOCK_HELD, is under none.
func (d *deployment) held() []string {
	return strings.FieldsFunc(os.Getenv(heldVariable), func(r rune) bool { return r == ',' })
}

// urls names the deployment by its masters, in any order, where that is all
// that is known. This machine has several names.
func (d *deployment) urls() string {
	var all []string
	for _, raw := range d.Nodes {
		name := "?" // redlock.New refuses it
		if e, err := conn.ParseURL(raw); err == nil {
			name = fmt.Sprintf("%s/%d", e, e.DB)
			if host, port, err := net.SplitHostPort(e.Addr); err == nil {
				if host = strings.ToLower(host); host == "localhost" || host == "::1" {
					host = "127.0.0.1"
				}
				name = fmt.Sprintf("%s:%s/%d", host, port, e.DB)
			}
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// names returns the id of the deployment, if a quorum of nodes shows one.
func (d *deployment) names(client *redlock.Client) []string {
	nodes := client.Nodes()
	shown := make(map[string]int)
	for _, n := range nodes {
		if shown[n.Deployment]++; n.Deployment != "" && shown[n.Deployment] == multiplex.Quorum(len(nodes)) {
			return []string{n.Deployment}
		}
	}
	return nil
}

// fingerprint stands for a resource of a deployment with that name, whatever it
// is.
func (d *deployment) fingerprint(name, resource string) string {
	hash := sha256.New()
	for _, part := range []string{name, d.Prefix, resource} {
		sum := sha256.Sum256([]byte(part))
		hash.Write(sum[:])
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// nested returns an error of usage if this process runs under a lock on one of
// the resources: a wait for it would be one for itself, without end. If both
// locks are shared, it reports that instead: then only a writer can be in the
// way, and it waits for the outer lock.
func (d *deployment) nested(client *redlock.Client, shared bool, resources ...string) (beside bool, err error) {
	held := d.held()
	for _, resource := range resources {
		for _, name := range append(d.names(client), d.urls()) {
			switch name = d.fingerprint(name, resource); {
			case slices.Contains(held, name), !shared && slices.Contains(held, name+sharedMark):
				return false, waitsForItself(resource)
			case slices.Contains(held, name+sharedMark):
				beside = true
			}
		}
	}
	return beside, nil
}

func waitsForItself(resource string) error {
	return usagef("resource %s: this runs under a redlock run or elect with that lock already, and would wait for itself; -n does not wait", quoted(resource))
}

// withheld completes the error of a command within a run that lacks a password.
func withheld(text string) string {
	if os.Getenv(heldVariable) == "" {
		return text
	}
	return text + " (redlock run and elect keep passwords from their commands, unless they are given --pass-credentials)"
}
