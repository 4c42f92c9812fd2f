package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/lua"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/redmux/redmux/resp"
)

// A page is where a node goes on. The cursor is its server's own: another one,
// as after a failover or a restart, would pass over keys.
type page struct {
	cursor     string
	done       bool
	connection int // that named the cursor: how many there had been
}

// unopened is the page of a node that has answered none.
var unopened = page{cursor: "0"}

// mostNames is how many bytes of names a reply has at most (R32).
const mostNames = 60_000

var scanScript = wire.NewScript(lua.Scan)

// scan asks each node for its next page, and returns what is new.
func (l *lister) scan() (found []*sighting) {
	pattern := globbed(l.config.Prefix+l.options.Prefix) + "*"
	load := scanScript.Load()
	pages, connections := slices.Clone(l.pages), l.connections()
	commands := func(node int) [][]byte {
		p := &l.pages[node]
		if p.done || l.errs[node] != nil {
			return nil
		}
		return [][]byte{load, resp.AppendCommand(nil, "EVALSHA", scanScript.Digest, "0", p.cursor, pattern, strconv.Itoa(l.options.Page),
			strconv.Itoa(len(l.config.Prefix)), strconv.Itoa(wire.LongestName), strconv.Itoa(mostNames))}
	}
	within, cancel := l.limitEach()
	defer cancel()
	refusals := make([]error, len(l.errs))
	errs := l.Group().QueryEach(within, 2, commands, func(node, i int, v resp.Value) error {
		switch {
		case v.IsError():
			refusals[node] = cmp.Or(refusals[node], refusedScan(v))
		case i == 1:
			names, missing, err := l.pages[node].read(v)
			l.begun[node] = l.begun[node] || err == nil
			l.all.Cut = l.all.Cut || missing
			for _, name := range names {
				if s := l.sightingOf(name); s != nil {
					found = append(found, s)
				}
			}
			l.all.Nodes[node].Keys += len(names)
			return err
		}
		return nil
	})
	l.miss(errs)
	l.miss(refusals)
	l.rewind(pages, connections)
	return found
}

// rewind lets those nodes begin anew whose page was not asked for over the
// connection that named its cursor. The arguments are from before the question.
func (l *lister) rewind(pages []page, connections []int) {
	for i, now := range l.connections() {
		switch was := pages[i]; {
		case was.done || l.errs[i] != nil: // it was not asked, or has not answered
		case now != connections[i], was != unopened && now != was.connection:
			l.pages[i], l.all.Nodes[i].Keys = unopened, 0
		default:
			l.pages[i].connection = now
		}
	}
}

// connections counts those that each node has had.
func (l *lister) connections() (counts []int) {
	for _, n := range l.Group().Nodes() {
		counts = append(counts, n.Connects)
	}
	return counts
}

// globbed returns a text as a pattern of SCAN that matches it alone.
func globbed(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// refusedScan returns why a node does not list its keys.
func refusedScan(v resp.Value) error {
	class := conn.ClassOf(v)
	if class != conn.ClassNoPerm {
		return &multiplex.RefusalError{Class: class}
	}
	return &multiplex.PreflightError{
		Check: "permissions", Found: "the user may not run SCAN, which lists the keys", Advice: "ACL SETUSER <user> " + pure.RightToList, Err: multiplex.ErrPermissions,
	}
}

// read takes the reply of scan.lua. missing reports that names are left out.
func (p *page) read(v resp.Value) (names []string, missing bool, err error) {
	parts := slices.Collect(v.Elements())
	ok := v.Type() == resp.Array && len(parts) == 3 && parts[0].Type() == resp.BulkString && parts[2].Type() == resp.BulkString
	if ok {
		p.cursor = string(parts[0].Bytes())
		p.done = p.cursor == "0"
		more, isNumber := parts[1].Int64()
		missing = more != 0
		names, ok = separate(string(parts[2].Bytes()))
		ok = ok && isNumber
	}
	if !ok {
		return nil, false, fmt.Errorf("%w: type %q to the list of keys", multiplex.ErrUnexpected, v.Type())
	}
	return names, missing, nil
}

// separate returns the names in a text that has each behind its length and a
// colon.
func separate(text string) (names []string, ok bool) {
	for text != "" {
		digits, rest, _ := strings.Cut(text, ":")
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || int(n) > min(len(rest), wire.LongestName) {
			return nil, false
		}
		names, text = append(names, rest[:n]), rest[n:]
	}
	return names, true
}

// limitEach bounds one round trip, so that a node that hangs does not hold up
// the listing.
func (l *lister) limitEach() (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.within, cmp.Or(l.config.NodeTimeout, inspectTimeout))
}

// miss notes which nodes are missing.
func (l *lister) miss(errs []error) {
	for i, err := range errs {
		l.errs[i] = cmp.Or(l.errs[i], err)
	}
}
