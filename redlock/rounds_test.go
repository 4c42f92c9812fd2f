package redlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock/internal/wire"
	"github.com/stretchr/testify/require"
)

// TestRounds runs testdata/rounds: the algorithm as data, exact because the
// clock is simulated. The README there explains the lines.
func TestRounds(t *testing.T) {
	files, err := filepath.Glob("../testdata/rounds/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	cases := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all, err := parseRounds(string(text))
		require.NoError(t, err, file)
		cases += len(all)
		for _, story := range all {
			name := strings.TrimSuffix(filepath.Base(file), ".txt") + "/" + story.name
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { story.run(t) })
			})
		}
	}
	require.GreaterOrEqual(t, cases, 150, "rounds were lost")
}

// A story is one client's rounds, one after another.
type story struct {
	name  string
	nodes int
	lines []line
}

// A line is one line of a file, with its function.
type line struct {
	number int
	text   string
	do     func(*player) error
	node   int    // of a line about a node, else -1
	nodes  int    // of a line about all
	reply  string // of a line about a node
	client string // of a line about what one does
}

// parseRounds parses a file. Lines of three dashes separate stories; a story is
// named by its first comment.
func parseRounds(text string) ([]*story, error) {
	var all []*story
	now := new(story)
	end := func() error {
		if len(now.lines) == 0 {
			return errors.New("a story without lines")
		}
		if !slices.ContainsFunc(now.lines, func(l line) bool { return l.client != "" }) {
			return fmt.Errorf("%s: a story without an outcome", now.name)
		}
		all, now = append(all, now), new(story)
		return nil
	}
	for i, raw := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		text, comment, _ := strings.Cut(raw, "# ")
		text = strings.Join(strings.Fields(text), " ")
		if now.name == "" {
			now.name = strings.TrimSpace(comment)
		}
		switch text {
		case "":
			continue
		case "---":
			if err := end(); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			continue
		}
		l, err := parseLine(strings.Replace(text, " within ", " after 0s..", 1))
		if err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", i+1, text, err)
		}
		l.number = i + 1
		now.nodes = max(now.nodes, l.node+1, l.nodes)
		now.lines = append(now.lines, l)
	}
	return all, end()
}

const (
	aTime  = `(\d[\d.]*[a-zµ][\w.]*)`
	aRange = `(\d[\d.]*[a-zµ]\w*(?:\.\.\d[\d.]*[a-zµ]\w*)?)`
	aWay   = `(\d[\w.]*(?:/\d[\w.]*)?)`
)

// grammar lists the forms of lines. The function gets what is in parentheses.
var grammar = []struct {
	form  *regexp.Regexp
	about string // what the first parentheses name
	do    func(p *player, args []string) error
}{
	{form(`node (\d+) (down|silent)`), "node", (*player).node},
	{form(`node (\d+) ` + aWay + ` (\+OK|null|lost|dies|[-:$*_].*)`), "node", (*player).node},
	{form(`node (\d+) ` + aWay + ` holds (\S+)`), "node", (*player).holds},
	{form(`node (\d+) restarts( with old keys)?`), "node", (*player).restart},
	{form(`nodes (\d+) ` + aWay), "nodes", (*player).allNodes},
	{form(`(?:nodes|node (\d+)) forgets? (\S+)`), "", (*player).forgets},
	{form(`way of ([a-z])(?: to node (\d+))? (\d[\w.]*(?:/\d[\w.]*)?|cut off|down|back)`), "", (*player).way},

	{form(`ttl ` + aTime), "", func(p *player, a []string) error { return set(&p.ttl, a[0]) }},
	{form(`min validity ` + aTime), "", func(p *player, a []string) error { return set(&p.config.MinValidity, a[0]) }},
	{form(`node timeout ` + aTime), "", func(p *player, a []string) error { return set(&p.config.NodeTimeout, a[0]) }},
	{form(`fair lease ` + aTime), "", func(p *player, a []string) error { return set(&p.config.FairLease, a[0]) }},
	{form(`retry delay ` + aTime), "", func(p *player, a []string) error { return set(&p.config.Retry.MaxDelay, a[0]) }},
	{form(`drift (\d*\.\d+)`), "", func(p *player, a []string) (err error) {
		p.config.DriftFactor, err = strconv.ParseFloat(a[0], 64)
		return err
	}},
	{form(`owners`), "", func(p *player, _ []string) error { p.owners = true; return nil }},
	{form(`fenced`), "", func(p *player, _ []string) error { p.config.Fenced, p.config.MaxTTL = true, maxTTL; return nil }},
	{form(`numbers of ([a-z]) ` + aTime + ` behind`), "client", (*player).behind},
	{form(`clock of ([a-z]) ` + aTime + ` (fast|slow)`), "client", (*player).ticketClock},

	{form(aCaller + ` ` + aWish + `s((?: [^ :]\S*)*?)(?: for ` + aTime + `)? : ` + anEnding), "client", (*player).wants},
	{form(aCaller + ` (waits|begins) to ` + aWish + `((?: \S+)*?)(?: for ` + aTime + `)?`), "client", (*player).waits},
	{form(aCaller + ` still waits`), "client", (*player).stillWaits},
	{form(aCaller + ` : ` + anEnding), "client", (*player).hears},
	{form(aCaller + ` ((?:upgrades|downgrades|downgrades \d\S*|extends \d\S*|releases|closes|drains|gives up)` +
		`(?: again| the lock of [a-z]\d?)?) : ` + anEnding), "client", (*player).does},
	{form(`cancel after ` + aTime), "", func(p *player, a []string) error { p.cancels = true; return set(&p.cancelAfter, a[0]) }},
	{form(`wait ` + aTime), "", (*player).wait},
	{form(`([a-z]) tries (\d+)\.\.(\d+) times in ` + aTime), "client", (*player).attempts},
	{form(`keys left at ` + aTime + ` : (none|[\d ]+)`), "", (*player).keysLeft},
	{form(`keys(?: of node (\d+))? at ` + aTime + ` : (.+)`), "", (*player).keys},
}

func form(text string) *regexp.Regexp { return regexp.MustCompile(`^` + text + `$`) }

func parseLine(text string) (line, error) {
	for _, g := range grammar {
		args := g.form.FindStringSubmatch(text)
		if args == nil {
			continue
		}
		l := line{text: text, node: -1, do: func(p *player) error { return g.do(p, args[1:]) }}
		for _, a := range args[1:] {
			if err := checkTimes(a); err != nil {
				return l, err
			}
		}
		switch g.about {
		case "client":
			l.client = args[1]
		case "nodes":
			l.nodes, _ = strconv.Atoi(args[1])
		case "node":
			l.node, _ = strconv.Atoi(args[1])
			if l.reply = args[len(args)-1]; l.node >= multiplex.MaxNodes {
				return l, errors.New("no such node")
			}
		}
		return l, nil
	}
	return line{}, errors.New("not understood")
}

// checkTimes refuses an invalid time, so that a bad file fails before it runs.
func checkTimes(arg string) error {
	if !regexp.MustCompile(`^\d[\d.]*[a-zµ]`).MatchString(arg) {
		return nil
	}
	for _, part := range regexp.MustCompile(`\.\.|/`).Split(arg, -1) {
		if _, err := time.ParseDuration(part); err != nil {
			return err
		}
	}
	return nil
}

func set(d *time.Duration, text string) (err error) {
	*d, err = time.ParseDuration(text)
	return err
}

// A player runs a story.
type player struct {
	t       *testing.T
	memory  *memory
	config  Config
	ttl     time.Duration
	replies []atomic.Value // strings; nodes read them at any time

	cancels     bool
	cancelAfter time.Duration

	callers           // in rounds_clients_test.go
	start   time.Time // of the last call of any caller
}

const (
	resource = "invoice:7"
	stranger = "another client's token"
)

func (s *story) run(t *testing.T) {
	p := &player{t: t, memory: newMemory(t, s.nodes), replies: make([]atomic.Value, s.nodes)}
	p.clients, p.all, p.ways = map[string]*Client{}, map[string]*caller{}, map[string]*redistest.Network{}
	defer p.leave()
	p.memory.usual() // the stories name keys and commands as they are sent
	for i := range p.memory.nodes {
		p.lieAt(i)
	}
	first := slices.IndexFunc(s.lines, func(l line) bool { return l.client != "" })
	for _, l := range s.lines[:first] {
		if l.reply == "down" {
			p.memory.link(l.node).Refuse(true)
		}
	}
	for i, l := range s.lines {
		if i == first {
			p.connect(s.lines)
			synctest.Wait()
			for _, l := range s.lines[:first] {
				if l.node >= 0 {
					require.NoError(t, l.do(p), "line %d: %s", l.number, l.text)
				}
			}
		}
		// The clients must connect before the nodes are what the first lines
		// say.
		if i < first && l.node >= 0 {
			continue
		}
		require.NoError(t, l.do(p), "line %d: %s", l.number, l.text)
	}
}

// lieAt makes a node answer with raw bytes if the story says so: an error
// answers every lock command, other bytes only claims.
func (p *player) lieAt(i int) {
	scripts := []string{wire.AskFair.Digest, wire.Read.Digest, wire.Write.Digest, wire.AcquirePermit.Digest, wire.AcquireAll.Digest}
	p.memory.nodes[i].Handle(func(_ int, args []string) ([]byte, bool) {
		reply, _ := p.replies[i].Load().(string)
		script := args[0] == "EVALSHA"
		claim := args[0] == "SET" || script && slices.Contains(scripts, args[1])
		lies := reply != "" && (claim || script && reply[0] == '-')
		return []byte(strings.ReplaceAll(reply, `\r\n`, "\r\n") + "\r\n"), lies
	})
}

// node sets the behavior of a node from now on.
func (p *player) node(args []string) error {
	i, _ := strconv.Atoi(args[0])
	node, link, what := p.memory.nodes[i], p.memory.link(i), args[len(args)-1]
	p.replies[i].Store("")
	for _, key := range node.Keys() {
		if value, _ := node.Get(key); value == stranger {
			node.DB().Delete(key)
		}
	}
	link.Refuse(what == "down")
	if what == "silent" {
		node.Pause()
	} else {
		node.Resume()
	}
	if what == "lost" {
		link.Pause(redistest.Down)
	} else {
		link.Resume(redistest.Down)
	}
	if len(args) == 3 {
		up, down, err := split(args[1])
		if err != nil {
			return err
		}
		link.Latency(up, down)
	}
	switch what {
	case "down":
		link.Reset()
	case "null":
		node.DB().Set(resource, stranger, 0)
	case "dies":
		link.CutOnce(redistest.Down, 0)
	case "+OK", "lost", "silent":
	default:
		p.replies[i].Store(what)
	}
	synctest.Wait()
	return nil
}

// allNodes makes all nodes answer after a time.
func (p *player) allNodes(args []string) error {
	for i := range p.memory.nodes {
		if err := p.node([]string{strconv.Itoa(i), args[1], "+OK"}); err != nil {
			return err
		}
	}
	return nil
}

// split parses "9ms", half of it each way, or "8ms/1ms", there and back.
func split(text string) (up, down time.Duration, err error) {
	if there, back, ok := strings.Cut(text, "/"); ok {
		return up, down, errors.Join(set(&up, there), set(&down, back))
	}
	err = set(&down, text)
	return down / 2, down - down/2, err
}

func (p *player) wait(args []string) error {
	var d time.Duration
	err := set(&d, args[0])
	time.Sleep(d)
	synctest.Wait()
	return err
}

// within compares a time with "9ms" or "9ms..15ms".
func within(got time.Duration, text string) error {
	var least, most time.Duration
	from, to, ok := strings.Cut(text, "..")
	if !ok {
		to = from
	}
	if err := errors.Join(set(&least, from), set(&most, to)); err != nil {
		return err
	}
	if got < least || got > most {
		return fmt.Errorf("%v instead of %s", got, text)
	}
	return nil
}

func outcomeOf(err error) string {
	var cancelled *CancelledError
	switch {
	case err == nil:
		return "released"
	case errors.As(err, &cancelled):
		return "cancelled"
	case errors.Is(err, ErrHeld):
		return "held"
	case errors.Is(err, ErrNotHeld):
		return "not held"
	case errors.Is(err, ErrNoQuorum):
		return "no quorum"
	case errors.Is(err, ErrExpired):
		return "expired"
	case errors.Is(err, ErrOverloaded):
		return "overloaded"
	case errors.Is(err, ErrTTL):
		return "impossible"
	case errors.Is(err, ErrClosed):
		return "closed"
	}
	return "another error"
}

// causesOf counts the nodes' causes: "2 timeout, 3 down".
func causesOf(err error) string {
	var undecided *multiplex.UndecidedError
	if !errors.As(err, &undecided) {
		return "none"
	}
	count := make(map[string]int)
	for _, n := range undecided.Nodes {
		count[causeOf(n.Err)]++
	}
	var all []string
	for cause, n := range count {
		all = append(all, fmt.Sprintf("%d %s", n, cause))
	}
	return sorted(all)
}

func sorted(all []string) string {
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func causeOf(err error) string {
	var refusal *multiplex.RefusalError
	var broken *conn.Error
	switch {
	case errors.Is(err, multiplex.ErrTimeout):
		return "timeout"
	case errors.Is(err, multiplex.ErrDown):
		return "down"
	case errors.Is(err, multiplex.ErrQuarantined):
		return "quarantined"
	case errors.Is(err, multiplex.ErrNoFloor):
		return "no floor"
	case errors.Is(err, multiplex.ErrUnexpected):
		return "unexpected"
	case errors.As(err, &refusal):
		return refusal.Class.String()
	case errors.As(err, &broken):
		return "broken"
	}
	return err.Error()
}

// keysLeft waits until a time after the start of the last operation and looks
// for our keys.
func (p *player) keysLeft(args []string) error {
	if err := p.until(args[0]); err != nil {
		return err
	}
	got := strings.Trim(fmt.Sprint(p.memory.where(func(n *redistest.Node) bool {
		return slices.ContainsFunc(n.Keys(), func(key string) bool {
			value, _ := n.Get(key)
			return value != stranger
		})
	})), "[]")
	if want := strings.TrimPrefix(args[1], "none"); got != want {
		return fmt.Errorf("keys on %q instead of %s", got, args[1])
	}
	return nil
}

// An invalid file fails, whatever is wrong with it; otherwise a typing error
// would be a test that cannot fail.
func TestRoundsThatAreNotUnderstood(t *testing.T) {
	const good = "ttl 10s\nnode 0 2ms +OK\na locks : acquired after 2ms validity 9.896s\n"
	all, err := parseRounds("# a name\n" + good + "---\n# another\n" + good)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "another", all[1].name)
	for _, bad := range []string{
		"", "# nothing\n", "ttl 10s\n", good + "---\n", good + "---\n# empty\n---\n" + good,
		good + "a locks : held\n", good + "a locks : held after\n", good + "a locks : held after soon\n", good + "a locks : held after 2 ms\n", good + "a locks : held after 2xs\n",
		good + "a locks : acquired 2ms\n", good + "a locks : acquired after 2ms validity\n", good + "a locks : acquired after 2ms validity 9\n",
		good + "a locks : no quorum after 2ms :\n", good + "keys left : none\n", good + "keys left at 2ms : some\n",
		good + "node 16 2ms +OK\n", good + "node x 2ms +OK\n", good + "node 0 +OK\n", good + "node 0 2ms up\n", good + "node 0 2ms/ +OK\n",
		good + "node 0 2ms down\n", good + "node 0 slow +OK\n", good + "ttl\n", good + "ttl ten\n", good + "drift 5\n",
		good + "cancel\n", good + "a extends\n", good + "a releases 10s\n", good + "nonsense\n", good + "node 0 holds invoice:8\n",
		good + "a waits\n", good + "a reads\n", good + "a waits to sing\n", good + "a reads : fine\n", good + "a reads : held after soon\n",
		good + "a extends : extended after 2ms\n", good + "aa : held after 2ms\n", good + "keys at 2ms :\n", good + "nodes 3\n",
		good + "a tries 3 times in 1s\n", good + "clock of a 1h\n", good + "numbers 3s behind\n", good + "node 0 restarts today\n", good + "way of b\n", good + "b begins\n", good + "a locks : Held after 2ms\n",
	} {
		_, err := parseRounds(bad)
		require.Error(t, err, "%q", bad)
	}
}

// A story with another outcome fails, in each of its parts.
func TestRoundsThatAreNotTrue(t *testing.T) {
	for _, c := range []struct{ before, outcome string }{
		{"node 0 2ms +OK", "a locks : acquired after 3ms validity 9.895s"},
		{"node 0 2ms +OK", "a locks : acquired after 2ms validity 9.895s"},
		{"node 0 2ms +OK", "a locks : held after 2ms"},
		{"node 0 2ms null", "a locks : acquired after 2ms validity 9.896s"},
		{"node 0 2ms null", "a locks : held after 1ms"},
		{"node 0 silent", "a locks : no quorum after 50ms : 1 down"},
		{"node 0 silent", "a locks : no quorum after 50ms : 2 timeout"},
		{"node 0 silent", "a locks : no quorum after 50.1ms : 1 timeout"},
		{"node 0 2ms +OK", "a locks : acquired after 2ms validity 9.896s\nkeys left at 3ms : none"},
		{"node 0 2ms null", "a locks : held after 2ms\nkeys left at 3ms : 0"},
		{"node 0 2ms null", "a locks : held after 2ms\nkeys left at 1ms : none"},
		{"nodes 1 2ms", "a reads : acquired after 1ms"},
		{"nodes 1 2ms", "a reads : acquired after 2ms validity 9.895s"},
		{"nodes 1 2ms", "a reads : held after 2ms"},
		{"nodes 1 2ms\na reads : acquired after 2ms", "b writes : held at place 1 after 2ms"},
		{"nodes 1 2ms\na reads : acquired after 2ms", "b writes : held by a after 2ms"},
		{"nodes 1 2ms\na locks x y : acquired after 2ms", "b locks y z : held at z after 2ms"},
		{"nodes 1 2ms\na reads : acquired after 2ms\nb waits to read\nwait 5ms", "b still waits"},
		{"nodes 1 2ms\na writes : acquired after 2ms\nb waits to read", "b tries 90..99 times in 1s"},
		{"nodes 1 2ms\na writes : acquired after 2ms", "keys at 3ms : readers"},
		{"nodes 1 2ms\na writes : acquired after 2ms", "keys of node 0 at 3ms : none"},
	} {
		all, err := parseRounds("ttl 10s\n" + c.before + "\n" + c.outcome)
		require.NoError(t, err)
		synctest.Test(t, func(t *testing.T) {
			s, last := all[0], len(all[0].lines)-1
			do := s.lines[last].do
			s.lines[last].do = func(p *player) error {
				require.Error(t, do(p), "%s\n%s", c.before, c.outcome)
				return nil
			}
			s.run(t)
		})
	}
}
