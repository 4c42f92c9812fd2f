package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redmux/redmux/cmd/internal/printable"
	"github.com/redmux/redmux/internal/errtext"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlock/admin"
)

// statusCommand shows who holds a resource.
type statusCommand struct {
	watching
	Resource string `arg:"" help:"What is locked: 1 to 1,024 bytes."`
}

// Help is what --help shows below the first line.
func (*statusCommand) Help() string {
	return `Each master is asked for the keys of the resource: those of a lock, of readers, of the permits of a semaphore, and of the queue of a fair lock. You need not say which kind it is. A holder is shown by the fingerprint of its token (redlock.Token.Fingerprint), which does not reveal the token. The verdict is one of

    held      a quorum of masters has one holder's key
    shared    a quorum has the same reader, or the same permit
    free      a quorum has none of these: an attempt now would get the lock,
              except that those in a queue go first, and that a writer that
              waits keeps readers out
    foreign   keys of another kind are in the way, such as a lock of Redisson (a
              hash), a counter or a list; another program may be using them
    remains   none of these, and no client holds it, whatever the missing
              answers are: there are remains of failed attempts, or several
              clients are asking right now
    unclear   it may be held: that depends on masters that did not answer
    unknown   less than a quorum answered

Readers, permits and waiters have tables of their own, with the masters that have each of them: one that less than a quorum has is coming or leaving, or remains of a failed attempt. A waiter is shown by a fingerprint, too, and by its place and the rest of its lease, which it renews while it waits.

A key of another kind is shown by its type, size and TTL, never by its content. It may be a lock that is held: find the program that uses it, and give one of the two another prefix.

The state may have changed when you read it; only a lock is a promise. Nothing is changed, and --max-ttl makes no difference.

Exit code: 69 if the verdict is unknown, otherwise 0. With --watch, an interrupt ends with 0.

Examples:

    redlock status nightly
    redlock status --watch nightly
    redlock status --json nightly | jq -r .verdict
`
}

// Run is the command.
func (c *statusCommand) Run(p *process, d *deployment) error {
	ctx, stop := p.interruptible(context.Background())
	defer stop()
	probes, err := d.probes(p)
	if err != nil {
		return err
	}
	defer closeAll(probes)
	client, err := d.onlooker(ctx, p)
	if err != nil {
		return err
	}
	defer shut(client)
	place := screenOf(p.stdout)
	return c.show(ctx, p, func(ctx context.Context) (view, error) {
		found, err := admin.Inspect(ctx, client, c.Resource)
		if errors.Is(err, redlock.ErrResource) {
			return view{}, err
		}
		return statusView(place, found, kindsOf(ctx, d, probes, d.Prefix+c.Resource, found), err), err
	})
}

// A verdict sums up the nodes' answers in a word.
type verdict string

const (
	verdictHeld    verdict = "held"
	verdictShared  verdict = "shared"
	verdictFree    verdict = "free"
	verdictForeign verdict = "foreign"
	verdictRemains verdict = "remains"
	verdictUnclear verdict = "unclear"
	verdictUnknown verdict = "unknown"
)

// judge returns the verdict. Instead of unclear it is remains or foreign if no
// holder can have a quorum, whatever is unknown.
func judge(found admin.Inspection, kinds []kind) verdict {
	missing, most, foreign := 0, mostOnOne(found), 0
	holders := make(map[string]int)
	for i, n := range found.Nodes {
		if isForeign(n, kindAt(kinds, i)) {
			foreign++
			continue
		}
		switch {
		case n.Err != nil:
			missing++
		case n.Holder != "":
			holders[n.Holder]++
			most = max(most, holders[n.Holder])
		}
	}
	quorum := multiplex.Quorum(len(found.Nodes))
	switch {
	case len(found.Nodes)-missing < quorum:
		return verdictUnknown
	case found.State == admin.StateHeld && most >= quorum:
		return verdictHeld
	case found.State == admin.StateFree:
		return verdictFree
	case found.State == admin.StateShared:
		return verdictShared
	case most+missing >= quorum:
		return verdictUnclear
	case foreign > 0:
		return verdictForeign
	default:
		return verdictRemains
	}
}

// nodeReport is what one node says of a resource, for programs.
type nodeReport struct {
	Addr    string   `json:"addr"`
	Holder  string   `json:"holder,omitempty"`
	Owner   string   `json:"owner,omitempty"`   // the label of the holder's client
	Label   string   `json:"label,omitempty"`   // that of its lock
	Foreign bool     `json:"foreign,omitempty"` // a key of another kind
	Type    string   `json:"type,omitempty"`    // the server's type of a key of another kind
	Kind    string   `json:"kind,omitempty"`    // the same in words
	TTL     *float64 `json:"ttl_ms,omitempty"`  // -1 for a key that never expires
	Permits int      `json:"permits,omitempty"` // as the node records
	Error   string   `json:"error,omitempty"`
}

// statusReport is what the nodes say of a resource, for programs.
type statusReport struct {
	At       time.Time `json:"at"`
	Resource string    `json:"resource"`
	Verdict  verdict   `json:"verdict"`
	Holder   string    `json:"holder,omitempty"`
	Owner    string    `json:"owner,omitempty"`  // the label of the holder's client
	Label    string    `json:"label,omitempty"`  // that of its lock
	Since    time.Time `json:"since,omitzero"`   // by its clock
	TTL      *float64  `json:"ttl_ms,omitempty"` // how long a quorum will have the holder's key
	Agree    int       `json:"agree"`
	Quorum   int       `json:"quorum"`
	participants
	Nodes []nodeReport `json:"nodes"`
	Error string       `json:"error,omitempty"`
}

// statusView returns the view of an inspection.
func statusView(place screen, found admin.Inspection, kinds []kind, err error) view {
	v := judge(found, kinds)
	r := statusReport{
		At: time.Now(), Resource: errtext.Name(found.Resource), Verdict: v, Holder: found.Holder, Owner: found.Owner, Label: found.Label, Since: found.Since, Agree: found.Agree,
		Quorum: multiplex.Quorum(len(found.Nodes)), TTL: ttlNumber(found.TTL, found.Holder != ""), Error: errorText(err),
		participants: participantsOf(found),
	}
	if v == verdictForeign {
		r.Holder, r.Owner, r.Label, r.Since, r.TTL, r.Agree = "", "", "", time.Time{}, nil, 0 // what a quorum has may be a counter
	}
	rows := [][]string{{"NODE", "HOLDER", "TTL"}}
	if found.Permits > 0 {
		rows[0] = append(rows[0], "PERMITS")
	}
	for i, n := range found.Nodes {
		row := nodeReport{Addr: n.Addr, Holder: n.Holder, Owner: n.Owner, Label: n.Label, TTL: ttlNumber(n.TTL, n.Holder != "" || n.Foreign), Permits: n.Permits, Error: errorText(n.Err)}
		if k := kindAt(kinds, i); isForeign(n, k) {
			row.Foreign, row.Holder, row.Owner, row.Label, row.Type, row.Kind = true, "", "", "", plain(k.Type), kindName(k)
		}
		r.Nodes = append(r.Nodes, row)
		cells := []string{n.Addr, cmp.Or(row.Error, row.Kind, named(row.Holder, row.Owner, row.Label)), ttlText(n)}
		if found.Permits > 0 {
			cells = append(cells, permitsCell(n))
		}
		rows = append(rows, cells)
	}
	text := printable.Line(verdictText(v, found, kinds), maxLine)
	line := quoted(found.Resource) + ": " + text
	head := quoted(found.Resource) + ": " + paintVerdict(place, v, text) + "\n\n"
	return view{page: head + place.table(rows) + participantsTables(found), line: line, json: r}
}

func paintVerdict(place screen, v verdict, text string) string {
	switch v {
	case verdictHeld, verdictShared, verdictFree:
		return place.paint(green, text)
	case verdictUnknown:
		return place.paint(red, text)
	default:
		return place.paint(yellow, text)
	}
}

// verdictText returns the verdict as a sentence, with who shares the resource or
// waits for it.
func verdictText(v verdict, found admin.Inspection, kinds []kind) string {
	switch text, more := keyText(v, found, kinds), participantsText(found); {
	case v == verdictShared:
		return text + more
	case more == "":
		return text
	default:
		return text + "; " + more
	}
}

// keyText is verdictText about the key of the resource.
func keyText(v verdict, found admin.Inspection, kinds []kind) string {
	nodes, keys, foreign, missing := count(len(found.Nodes), "node"), 0, 0, 0
	sharing := participating(found)
	for i, node := range found.Nodes {
		switch {
		case node.Err != nil:
			missing++
		case isForeign(node, kindAt(kinds, i)):
			foreign++
		case node.Holder != "" || sharing[i]:
			keys++
		}
	}
	switch v {
	case verdictHeld:
		left := "for ever: its keys have no TTL, so no client of this library set them"
		if found.TTL != admin.NoExpiry {
			left = "for " + found.TTL.Round(time.Millisecond).String() + " unless it is extended or released"
		}
		return fmt.Sprintf("held by %s%s on %d of %s, %s", named(found.Holder, found.Owner, found.Label), sinceText(found.Since), found.Agree, nodes, left)
	case verdictShared:
		return fmt.Sprintf("shared on %d of %s: ", found.Agree, nodes)
	case verdictFree:
		text := fmt.Sprintf("free on %d of %s", found.Agree, nodes)
		if keys > 0 {
			text += fmt.Sprintf(", with remains on %d", keys)
		}
		if foreign > 0 {
			text += ", but there is " + foreignText(found, kinds)
		}
		return text
	case verdictForeign:
		return foreignText(found, kinds) + "; another program may be using it, and no client can get this lock meanwhile"
	case verdictRemains:
		return fmt.Sprintf("remains of failed attempts on %d of %s, or several clients are asking", keys, nodes)
	case verdictUnclear:
		return fmt.Sprintf("unclear: keys on %d of %s, and no answer of %d", keys+foreign, nodes, missing)
	default:
		return fmt.Sprintf("unknown: no answer of %d of %s", missing, nodes)
	}
}

// named adds the labels of its client and of its lock to the fingerprint of a
// holder. Labels are printable ASCII.
func named(holder, owner, label string) string {
	switch {
	case owner == "" && label == "":
		return holder
	case label == "":
		return holder + " (" + owner + ")"
	default:
		return holder + " (" + strings.TrimSpace(owner+" "+strconv.Quote(label)) + ")"
	}
}

// sinceText says since when a lock is held, in the time zone of this process;
// "" if that is not known.
func sinceText(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return " since " + since.Local().Format(time.DateTime)
}

func ttlText(n admin.InspectedNode) string {
	switch {
	case n.Err != nil || n.Holder == "" && !n.Foreign:
		return ""
	case n.TTL == admin.NoExpiry:
		return "none"
	default:
		return n.TTL.String()
	}
}

// ttlNumber returns a TTL for programs: nil without a key, -1 without a TTL.
func ttlNumber(ttl time.Duration, key bool) *float64 {
	if !key {
		return nil
	}
	if ttl == admin.NoExpiry {
		return number(-1)
	}
	return msNumber(ttl)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return plain(errtext.Text(err))
}

// quoted shows a name that a user gave.
func quoted(name string) string { return `"` + strings.ReplaceAll(plain(name), `"`, `\"`) + `"` }
