package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/cmd/internal/printable"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// listCommand shows what is locked.
type listCommand struct {
	By      string         `placeholder:"OWNER" help:"Only what a client with this --owner has; a * at the end stands for any rest, as in 'web-1:*'."`
	Older   *time.Duration `placeholder:"DURATION" help:"Only what has been held, or waited for, for longer."`
	Unknown bool           `help:"With --older, also that of which the masters do not know since when."`
	Limit   int            `default:"${list_limit}" placeholder:"N" help:"How many keys are looked at (${default})."`
	Within  time.Duration  `default:"${list_within}" placeholder:"DURATION" help:"How long it may take (${default})."`
	Pause   time.Duration  `default:"${list_pause}" placeholder:"DURATION" help:"How long the masters are left alone between two pages of SCAN (${default})."`
	JSON    bool           `name:"json" help:"Print JSON."`

	Beginning string `arg:"" optional:"" help:"What the names of the resources begin with."`
}

// Help is what --help shows below the first line.
func (*listCommand) Help() string {
	return `Shows every lock of the deployment, whatever its kind. Each master goes through the keys of its database with SCAN, so the user needs that right (ACL SETUSER <user> +scan). Nothing is changed.

    KIND      lock: the whole resource, as locked by run and acquire (with or
              without --fenced, --also, --exclusive or --fair) and elect;
              reader (--shared), permit with its number (--permits), and waiter
              with its place (--fair)
    STATE     held: by the word of a quorum of masters; waiting: the same of a
              waiter. partial: less than a quorum has it, so it holds nothing:
              it is coming or leaving, or remains of a crash until its TTL
              ends. unclear: masters that did not answer decide that
    HOLDER    the fingerprint of the token, with --owner and --label
    AGE       since when, by the clock of the holder's machine; a question mark
              if the lock has neither an owner, a label nor a fencing number. A
              renewal changes nothing
    TTL       how much longer a quorum has it, unless it is renewed
    ON        which masters have it, if not all

A lock that was held all the time is listed, unless the listing says that it is not complete. Of others, the state may have changed when you read it. Keys that are no locks of this library are only counted.

Exit code: 0, also if nothing is locked; 69 if less than a quorum answered. Once a quorum has, a listing that ends by --limit or --within is not complete, and says so on standard error, and in JSON with cut.

Examples:

    redlock list
    redlock list --older 1h --by 'web-1:*'
    redlock list --json invoice: | jq -r '.locks[] | select(.state == "partial") | .resource'
`
}

// Validate is called by package kong.
func (c *listCommand) Validate() error {
	negative := errtext.Negative("--pause", c.Pause)
	if c.Older != nil {
		negative = cmp.Or(negative, errtext.Negative("--older", *c.Older))
	}
	switch {
	case negative != nil:
		return negative
	case c.Limit < 1:
		return errors.New("--limit must be at least 1")
	case c.Within <= 0:
		return errors.New("--within must be more than 0")
	case c.Unknown && c.Older == nil:
		return errors.New("--unknown is for --older")
	}
	return nil
}

// Run is the command.
func (c *listCommand) Run(p *process, d *deployment) error {
	ctx, stop := p.interruptible(context.Background())
	defer stop()
	client, err := d.onlooker(ctx, p)
	if err != nil {
		return err
	}
	defer shut(client)
	within, cancel := context.WithTimeout(ctx, c.Within)
	defer cancel()
	all, err := admin.List(within, client, admin.ListOptions{Prefix: c.Beginning, Limit: c.Limit, Pause: max(c.Pause, time.Nanosecond)})
	if ended := interrupted(ctx); ended != nil {
		return ended
	}
	late := false
	switch {
	case within.Err() == nil:
	case errors.Is(err, redlock.ErrNoQuorum):
		err = fmt.Errorf("%w; --within is %v", err, c.Within)
	case errors.Is(err, context.DeadlineExceeded):
		late, err = true, nil // what is known is shown, and that it is not all
	}
	r := c.reportOf(all, err)
	if c.JSON {
		err = errors.Join(err, printJSON(p.stdout, r, true))
	} else {
		_, failed := p.stdout.Write([]byte(r.page(screenOf(p.stdout))))
		err = errors.Join(err, failed)
	}
	switch {
	case err != nil:
	case late:
		p.say("not complete: --within %v is over", c.Within)
	case all.Cut:
		p.say("not complete: %d keys were looked at (--limit)", c.Limit)
	}
	return err
}

// listReport is what is locked, for programs.
type listReport struct {
	At     time.Time          `json:"at"`
	Quorum int                `json:"quorum"`
	Locks  []admin.ListedLock `json:"locks"`
	// UnknownAge is how many were left out since it is unknown whether they
	// are older.
	UnknownAge int                `json:"unknown_age,omitempty"`
	Others     int                `json:"others"` // keys that are no locks
	Cut        bool               `json:"cut,omitempty"`
	Nodes      []admin.ListedNode `json:"nodes"`
	Error      string             `json:"error,omitempty"`
}

// reportOf returns what the flags ask for.
func (c *listCommand) reportOf(all admin.Listing, err error) listReport {
	r := listReport{
		At: time.Now(), Quorum: multiplex.Quorum(len(all.Nodes)), Locks: []admin.ListedLock{}, Others: all.Others, Cut: all.Cut,
		Nodes: all.Nodes, Error: errorText(err),
	}
	for _, lock := range all.Locks {
		switch {
		case !c.isBy(lock.Owner):
		case c.Older == nil, lock.Since.IsZero() && c.Unknown:
			r.Locks = append(r.Locks, lock)
		case lock.Since.IsZero():
			r.UnknownAge++
		case r.At.Sub(lock.Since) > *c.Older:
			r.Locks = append(r.Locks, lock)
		}
	}
	return r
}

// isBy reports whether --by names an owner.
func (c *listCommand) isBy(owner string) bool {
	if beginning, open := strings.CutSuffix(c.By, "*"); open {
		return owner != "" && strings.HasPrefix(owner, beginning)
	}
	return c.By == "" || c.By == owner
}

// page returns the report for people.
func (r *listReport) page(place screen) string {
	var b strings.Builder
	if len(r.Locks) > 0 {
		rows := [][]string{{"RESOURCE", "KIND", "STATE", "HOLDER", "AGE", "TTL", "ON"}}
		for _, lock := range r.Locks {
			rows = append(rows, r.row(lock))
		}
		b.WriteString(place.table(rows) + "\n")
	}
	b.WriteString(r.summary() + "\n")
	for _, n := range r.Nodes {
		if n.Err != nil {
			fmt.Fprintf(&b, "%s %s\n", place.paint(red, plain(n.Addr)+":"), errorText(n.Err))
		}
	}
	return b.String()
}

// row returns the cells of a lock.
func (r *listReport) row(l admin.ListedLock) []string {
	kind := string(l.Kind)
	if l.Kind == admin.KindPermit || l.Kind == admin.KindWaiter {
		kind += " " + strconv.Itoa(l.Number)
	}
	age, ttl, on := "?", "none", "all nodes"
	if !l.Since.IsZero() {
		age = max(0, r.At.Sub(l.Since)).Round(time.Second).String()
	}
	if l.TTL != admin.NoExpiry {
		ttl = l.TTL.Round(time.Millisecond).String()
	}
	if len(l.Nodes) < len(r.Nodes) {
		var names []string
		for _, i := range l.Nodes {
			names = append(names, r.Nodes[i].Addr)
		}
		on = strings.Join(names, ", ")
	}
	return []string{printable.Line(quoted(l.Resource), maxShown), kind, string(l.State), named(l.Holder, l.Owner, l.Label), age, ttl, on}
}

// summary counts what is listed, and what is not.
func (r *listReport) summary() string {
	counts := make(map[admin.ListedState]int)
	for _, l := range r.Locks {
		counts[l.State]++
	}
	text := fmt.Sprintf("%d held", counts[admin.ListedHeld])
	for _, state := range []admin.ListedState{admin.ListedWaiting, admin.ListedUnclear, admin.ListedPartial} {
		if counts[state] > 0 {
			text += fmt.Sprintf(", %d %s", counts[state], state)
		}
	}
	if r.UnknownAge > 0 {
		text += fmt.Sprintf("; not shown: %d of unknown age (--unknown)", r.UnknownAge)
	}
	if r.Others > 0 {
		text += "; " + count(r.Others, "key") + " of other programs"
	}
	missing := len(slices.DeleteFunc(slices.Clone(r.Nodes), func(n admin.ListedNode) bool { return n.Err == nil }))
	if missing > 0 {
		text += fmt.Sprintf("; no answer of %d of %s", missing, count(len(r.Nodes), "node"))
	}
	return text
}
