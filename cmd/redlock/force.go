package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
	"github.com/redmux/redmux/resp"
)

// forcing has the flags of a release without the token.
type forcing struct {
	Force bool `xor:"source" help:"Take the lock from its holder: show the keys, ask, and delete what was shown."`
	Yes   bool `help:"With --force, do not ask. For scripts."`

	Permit *int `help:"With --force, take this permit of a semaphore: its number, as redlock status shows it."`
}

// Validate is called by package kong.
func (f *forcing) Validate() error {
	switch {
	case f.Yes && !f.Force:
		return errors.New("--yes needs --force")
	case f.Permit != nil && !f.Force:
		return errors.New("--permit needs --force")
	case f.Permit != nil && (*f.Permit < 0 || *f.Permit >= redlock.MaxPermits):
		return errors.New("--permit: there is no such permit")
	}
	return nil
}

// forceHelp is the part of --help about --force.
const forceHelp = `With --force, no token is needed: use it for a lock whose holder is dead, when you cannot wait for the TTL. The key on each master is shown by its fingerprint and TTL. After a yes, the keys that still have the value that was shown are deleted; a lock that another client got meanwhile is left alone and reported. A holder that is alive is not told: it works on until its next renewal. Exit code: 0 deleted, 1 the answer was not yes, 69 less than a quorum answered, 75 a key was left alone, or readers or permits are held.

A key that no client of this algorithm can have set, such as a counter, is left alone: see redlock status.

A permit has to be named by its number: release --force --permit 3 workers. Readers are never taken from: wait for their TTL. The lock of a fair lock is the key of its name, and goes to the next in the queue.
`

// forceRelease takes a lock from its holder: it shows the key of the resource
// on each node, asks, and deletes what it showed and nothing else. A key that
// has changed since belongs to another client, which got the lock properly, and
// is left alone. No value is printed, nor kept longer than that (R27).
//
// The holder is not told. It finds out at its next renewal, and until then
// relies on its lock. The question says so.
func forceRelease(p *process, d *deployment, resource string, flags *forcing) error {
	if err := checkResource(resource); err != nil {
		return err
	}
	if !flags.Yes && !onTerminal(p.stdin) {
		return usagef("release --force asks before it deletes, but standard input is not a terminal: use --yes in scripts")
	}
	probes, err := d.probes(p)
	if err != nil {
		return err
	}
	defer closeAll(probes)
	ctx, stop := p.interruptible(context.Background())
	defer stop()
	f := &forced{key: d.Prefix + resource, permit: flags.Permit, nodes: make([]forcedNode, len(probes))}
	answered := p.tellIfSlow()
	d.forEach(ctx, probes, f.read)
	answered()
	if err := interrupted(ctx); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(p.stdout, "%s:\n\n%s\n", quoted(resource), f.found(probes)); err != nil {
		return err
	}
	if f.count(shown) == 0 {
		if err := f.nothing(p.stdout); err != nil {
			return err
		}
		return f.others(ctx, p, d, resource)
	}
	if !flags.Yes {
		if err := confirm(ctx, p, f.count(shown)); err != nil {
			return err
		}
	}
	// From here on it is completed, even after an interrupt: half a deletion
	// leaves more doubt than a whole one. An interrupt only bounds the wait for
	// nodes that hang.
	deleting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeTimeout, cancel) })()
	d.forEach(deleting, probes, f.delete)
	if _, err := fmt.Fprint(p.stdout, f.outcome(probes)); err != nil {
		return err
	}
	if err := f.verdict(); err != nil {
		return err
	}
	return f.others(deleting, p, d, resource)
}

// others returns an error if the resource is held by readers, or permits of it
// are: these have keys of their own. If the nodes do not say, there is none.
// Beside a permit that was named, others do not matter.
func (f *forced) others(ctx context.Context, p *process, d *deployment, resource string) error {
	if f.permit != nil {
		return nil
	}
	client, err := d.onlooker(ctx, p)
	if err != nil {
		return err
	}
	defer shut(client)
	found, err := admin.Inspect(ctx, client, resource)
	if err != nil || len(onQuorum(found, found.Readers))+len(onQuorum(found, found.PermitsHeld)) == 0 {
		return nil
	}
	return &exitError{exitHeld, errors.New("readers or permits are held, and left alone: see redlock status, and --help")}
}

// forced is the key of a resource on all nodes, or one of its permits.
type forced struct {
	key    string
	permit *int // its number; nil for the key
	nodes  []forcedNode
}

// A forcedNode is what is known of the key on one node, and the result of its
// deletion.
type forcedNode struct {
	state forcedState
	value string // as it was read
	ttl   time.Duration
	never bool // it has no TTL
	err   error
}

type forcedState string

const (
	absent  forcedState = "no key"
	shown   forcedState = "shown"
	foreign forcedState = "a key that is not a lock: left alone"
	unread  forcedState = "no answer"
	refused forcedState = "refused"

	deleted  forcedState = "deleted"
	gone     forcedState = "gone before"
	changed  forcedState = "changed since it was shown: left alone"
	unproven forcedState = "no answer: it may or may not be deleted"
)

// read asks for the key. If the key changes between the two commands, the first
// one's value is shown with the second one's TTL; only the value matters.
func (f *forced) read(ctx context.Context, i int, node *probe.Probe) {
	n := &f.nodes[i]
	n.state = absent
	questions := f.questions(n, node)
	if f.permit != nil {
		questions = f.permitQuestions(n, node)
	}
	if err := node.Ask(ctx, questions...); err != nil {
		*n = forcedNode{state: unread, err: err}
	}
}

// questions returns those for the key.
func (f *forced) questions(n *forcedNode, node *probe.Probe) []probe.Question {
	return []probe.Question{
		{Command: resp.AppendCommand(nil, "GET", f.key), Take: func(v resp.Value) error {
			switch {
			case conn.ClassOf(v) == conn.ClassWrongType:
				n.state = foreign
			case v.IsError():
				n.state, n.err = refused, node.ServerError(v)
			case v.Type() == resp.BulkString && !v.IsNull():
				n.state, n.value = shown, string(v.Bytes())
				if (kind{Type: "string", Size: int64(len(n.value)), Number: isNumber(n.value)}).foreign() {
					n.state, n.value = foreign, "" // redlock status says the same
				}
			}
			return nil
		}},
		{Command: resp.AppendCommand(nil, "PTTL", f.key), Take: func(v resp.Value) error {
			n.left(v)
			return nil
		}},
	}
}

// left takes what remains of a key's time, in ms. A node may claim anything.
func (n *forcedNode) left(v resp.Value) {
	ms, ok := v.Int64()
	n.never = ok && ms == -1
	n.ttl = time.Duration(max(0, min(ms, pure.LongestTTL.Milliseconds()))) * time.Millisecond
}

// permitQuestions returns those for a permit: see look_permits.lua.
func (f *forced) permitQuestions(n *forcedNode, node *probe.Probe) []probe.Question {
	return script(lua.LookPermits, func(v resp.Value) error {
		all := slices.Collect(v.Elements())
		switch {
		case conn.ClassOf(v) == conn.ClassWrongType:
			n.state = foreign
		case v.IsError():
			n.state, n.err = refused, node.ServerError(v)
		case len(all) >= 5 && isPermit(all[2], *f.permit):
			n.state, n.value = shown, string(all[4].Bytes())
			n.left(all[3])
		}
		return nil
	}, "1", f.key+permitsSuffix, strconv.Itoa(*f.permit))
}

func isPermit(v resp.Value, permit int) bool {
	number, ok := v.Int64()
	return ok && number == int64(permit)
}

// The keys of a semaphore, behind that of its name.
const permitsSuffix, wantedSuffix = ":redlock:permits", ":redlock:wanted"

// script returns what runs a script with the given keys and arguments. It loads
// the script each time, which costs nothing and saves a second round trip if it
// is unknown. EVAL would do both, but locks do not need the right to run it.
func script(source string, take func(v resp.Value) error, args ...string) []probe.Question {
	call := append([]string{"EVALSHA", probe.Digest(source)}, args...)
	return []probe.Question{
		{Command: resp.AppendCommand(nil, "SCRIPT", "LOAD", source), Take: func(resp.Value) error { return nil }},
		{Command: resp.AppendCommand(nil, call...), Take: take},
	}
}

//go:embed force.lua
var forceScript string

// delete deletes the key if it still has the value that was shown.
func (f *forced) delete(ctx context.Context, i int, node *probe.Probe) {
	n := &f.nodes[i]
	if n.state != shown {
		return
	}
	n.state = unproven
	// The user may have taken longer to answer than the node leaves an idle
	// connection open.
	node.Close()
	take := func(v resp.Value) error {
		switch answer, ok := v.Int64(); {
		case v.IsError():
			n.state, n.err = refused, node.ServerError(v)
		case ok && answer == 1:
			n.state = deleted
		case ok && answer == 0:
			n.state = gone
		case ok && answer == -1:
			n.state = changed
		}
		return nil
	}
	questions := script(forceScript, take, "1", f.key, n.value)
	if f.permit != nil { // a release: callers that wait are told
		questions = script(lua.ReleasePermit, take,
			"2", f.key+permitsSuffix, f.key+wantedSuffix, n.value, strconv.Itoa(*f.permit))
	}
	if err := node.Ask(ctx, questions...); err != nil {
		n.state, n.err = unproven, err
	}
	n.value = "" // it is no longer needed
}

// found returns the table of the keys.
func (f *forced) found(probes []*probe.Probe) string {
	rows := [][]string{{"NODE", "HOLDER", "TTL"}}
	for i, n := range f.nodes {
		row := []string{probes[i].Addr(), "", ""}
		switch n.state {
		case shown:
			row[1], row[2] = fingerprint(n.value), n.ttl.String()
			if n.never {
				row[2] = "none"
			}
		case foreign:
			row[1] = string(n.state)
		case unread, refused:
			row[1] = n.err.Error()
		}
		rows = append(rows, row)
	}
	return table(rows)
}

// fingerprint is that of package redlock, so that a holder can recognize
// itself.
func fingerprint(value string) string {
	if v, ok := pure.ParseValue(value); ok && v.Token != value {
		return named(fingerprint(v.Token), v.Owner, v.Label)
	}
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:8])
}

func (f *forced) count(states ...forcedState) (n int) {
	for _, node := range f.nodes {
		if slices.Contains(states, node.state) {
			n++
		}
	}
	return n
}

// nothing reports that no key was found.
func (f *forced) nothing(out io.Writer) error {
	if silent := f.count(unread, refused); len(f.nodes)-silent < multiplex.Quorum(len(f.nodes)) {
		return &exitError{exitNoQuorum, fmt.Errorf("no answer from %d of %s: nothing is known", silent, count(len(f.nodes), "node"))}
	}
	if _, err := fmt.Fprintln(out, "Nothing to delete."); err != nil {
		return err
	}
	return f.verdict() // there may be a key that is not a lock, which is in the way
}

// outcome returns the table of what was done.
func (f *forced) outcome(probes []*probe.Probe) string {
	rows := [][]string{{"NODE", "OUTCOME"}}
	for i, n := range f.nodes {
		text := string(n.state)
		if n.err != nil {
			text += ": " + n.err.Error()
		}
		rows = append(rows, []string{probes[i].Addr(), text})
	}
	return table(rows)
}

// verdict returns an error unless the lock is free now, as far as is known.
func (f *forced) verdict() error {
	left, silent := f.count(changed, foreign), f.count(unread, refused, unproven)
	quorum := multiplex.Quorum(len(f.nodes))
	switch {
	case len(f.nodes)-silent < quorum:
		return &exitError{exitNoQuorum, fmt.Errorf("no answer from %d of %s: check with redlock status", silent, count(len(f.nodes), "node"))}
	case left > 0:
		return &exitError{exitHeld, fmt.Errorf("left alone on %s: check with redlock status", count(left, "node"))}
	}
	return nil
}

// errRefused is the error of an answer other than yes.
var errRefused = errors.New("nothing was deleted")

// confirm asks the user, and waits for an answer or a signal. Only the whole
// word counts.
//
// A read from a terminal cannot be interrupted. After a signal, the goroutine
// that reads is left behind; the process ends right after.
func confirm(ctx context.Context, p *process, keys int) error {
	const question = "The holder is not told, and works on until its next renewal: stop it first, or make sure that it is dead.\n" +
		"Delete these keys on %s? Type yes: "
	if _, err := fmt.Fprintf(p.stdout, question, count(keys, "node")); err != nil {
		return err
	}
	answer := make(chan string, 1)
	go func() {
		// A line that is longer than any answer is not one.
		line, err := bufio.NewReader(io.LimitReader(p.stdin, 64)).ReadString('\n')
		if err != nil {
			line = "" // an incomplete line is no answer
		}
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(p.stdout)
		return interrupted(ctx)
	case line := <-answer:
		if err := interrupted(ctx); err != nil {
			return err // it takes precedence over the answer
		}
		if strings.ToLower(strings.TrimSpace(line)) != "yes" {
			return &exitError{exitFailed, errRefused}
		}
		return nil
	}
}
