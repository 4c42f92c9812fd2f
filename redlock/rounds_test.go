package redlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
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
	require.GreaterOrEqual(t, cases, 40, "rounds were lost")
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
	reply  string // of a line about a node
	op     bool   // sends commands to the nodes
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
		if !slices.ContainsFunc(now.lines, func(l line) bool { return l.op }) {
			return fmt.Errorf("%s: a story without an outcome", now.name)
		}
		all, now = append(all, now), new(story)
		return nil
	}
	for i, raw := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		text, comment, _ := strings.Cut(raw, "#")
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
		l, err := parseLine(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", i+1, text, err)
		}
		l.number = i + 1
		now.nodes = max(now.nodes, l.node+1)
		now.lines = append(now.lines, l)
	}
	return all, end()
}

const (
	aTime  = `(\d[\d.]*[a-zµ][\w.]*)`
	aRange = `(\d[\d.]*[a-zµ]\w*(?:\.\.\d[\d.]*[a-zµ]\w*)?)`
)

// grammar lists the forms of lines. The function gets what is in parentheses.
var grammar = []struct {
	form *regexp.Regexp
	op   bool
	do   func(p *player, args []string) error
}{
	{regexp.MustCompile(`^ttl ` + aTime + `$`), false, func(p *player, a []string) error { return set(&p.ttl, a[0]) }},
	{regexp.MustCompile(`^min validity ` + aTime + `$`), false, func(p *player, a []string) error { return set(&p.config.MinValidity, a[0]) }},
	{regexp.MustCompile(`^node timeout ` + aTime + `$`), false, func(p *player, a []string) error { return set(&p.config.NodeTimeout, a[0]) }},
	{regexp.MustCompile(`^drift (\d*\.\d+)$`), false, func(p *player, a []string) (err error) {
		p.config.DriftFactor, err = strconv.ParseFloat(a[0], 64)
		return err
	}},
	{regexp.MustCompile(`^node (\d+) (down|silent)$`), false, (*player).node},
	{regexp.MustCompile(`^node (\d+) (\d[\w.]*(?:/\d[\w.]*)?) (\+OK|null|lost|dies|[-:$*_].*)$`), false, (*player).node},
	{regexp.MustCompile(`^cancel after ` + aTime + `$`), false, func(p *player, a []string) error { p.cancels = true; return set(&p.cancelAfter, a[0]) }},
	{regexp.MustCompile(`^wait ` + aTime + `$`), false, (*player).wait},
	{regexp.MustCompile(`^acquire$`), false, func(p *player, _ []string) error { p.next = p.acquire; return nil }},
	{regexp.MustCompile(`^extend ` + aTime + `$`), false, (*player).extendNext},
	{regexp.MustCompile(`^release$`), false, func(p *player, _ []string) error { p.next = p.release; return nil }},
	{regexp.MustCompile(`^(?:acquired|extended) after ` + aTime + ` validity ` + aTime + `$`), true, (*player).granted},
	{regexp.MustCompile(`^(released|held|not held|expired|overloaded|impossible) after ` + aTime + `$`), true, (*player).ended},
	{regexp.MustCompile(`^(no quorum) after ` + aTime + ` : (.+)$`), true, (*player).ended},
	{regexp.MustCompile(`^(cancelled) after ` + aRange + `$`), true, (*player).ended},
	{regexp.MustCompile(`^resources (.+)$`), false, func(p *player, a []string) error { p.resources = strings.Split(a[0], " "); return nil }},
	{regexp.MustCompile(`^node (\d+) (\d[\w.]*(?:/\d[\w.]*)?) holds (\S+)$`), false, (*player).holds},
	{regexp.MustCompile(`^fenced$`), false, func(p *player, _ []string) error { p.config.Fenced, p.config.MaxTTL = true, maxTTL; return nil }},
	{regexp.MustCompile(`^numbers ` + aTime + ` behind$`), false, (*player).behind},
	{regexp.MustCompile(`^node (\d+) restarts( with old keys)?$`), false, (*player).restart},
	{regexp.MustCompile(`^late node (\d+) (\d[\w.]*(?:/\d[\w.]*)?|cut off)$`), false, (*player).lateNode},
	{regexp.MustCompile(`^late acquire$`), false, (*player).lateAcquire},
	{regexp.MustCompile(`^late (acquired|held|no quorum|expired)$`), true, (*player).lateOutcome},
	{regexp.MustCompile(`^keys left at ` + aTime + ` : (none|[\d ]+)$`), false, (*player).keysLeft},
}

func parseLine(text string) (line, error) {
	for _, g := range grammar {
		args := g.form.FindStringSubmatch(text)
		if args == nil {
			continue
		}
		l := line{text: text, node: -1, op: g.op, do: func(p *player) error { return g.do(p, args[1:]) }}
		for _, a := range args[1:] {
			if err := checkTimes(a); err != nil {
				return l, err
			}
		}
		if strings.HasPrefix(text, "node ") && len(args) > 2 {
			n, err := strconv.Atoi(args[1])
			if err != nil || n >= multiplex.MaxNodes {
				return l, errors.New("no such node")
			}
			l.node, l.reply = n, args[len(args)-1]
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
	client  *Client
	ttl     time.Duration
	replies []string

	cancels     bool
	cancelAfter time.Duration
	next        func(context.Context) error

	resources []string // if there are several
	fencing            // rounds_fence_test.go

	lock  Lock
	start time.Time // of the last operation
	took  time.Duration
	err   error
}

const (
	resource = "invoice:7"
	stranger = "another client's token"
)

func (s *story) run(t *testing.T) {
	p := &player{t: t, memory: newMemory(t, s.nodes), replies: make([]string, s.nodes)}
	p.memory.usual() // the stories name keys and commands as they are sent
	p.next = p.acquire
	for i := range p.memory.nodes {
		p.lieAt(i)
	}
	first := slices.IndexFunc(s.lines, func(l line) bool { return l.op })
	for _, l := range s.lines[:first] {
		if l.reply == "down" {
			p.memory.link(l.node).Refuse(true)
		}
	}
	for i, l := range s.lines {
		if i == first {
			p.begin(s.lines[:first])
		}
		// begin handles the lines about nodes before the first operation, since
		// the client must connect first.
		if i < first && l.node >= 0 {
			continue
		}
		require.NoError(t, l.do(p), "line %d: %s", l.number, l.text)
	}
}

// begin connects the client and then arranges the nodes.
func (p *player) begin(lines []line) {
	if p.config.Fenced {
		p.open()
	}
	p.client = p.memory.client(p.t, p.config)
	synctest.Wait()
	for _, l := range lines {
		if l.node >= 0 {
			require.NoError(p.t, l.do(p), "line %d: %s", l.number, l.text)
		}
	}
}

// lieAt makes a node answer SETs with raw bytes if the story says so.
func (p *player) lieAt(i int) {
	p.memory.nodes[i].Handle(func(_ int, args []string) ([]byte, bool) {
		switch reply := p.replies[i]; {
		case args[0] != "SET" && args[0] != "EVALSHA", reply == "":
			return nil, false
		case reply[0] == '-': // an error answers every lock command, other bytes only SET
			return []byte(reply + "\r\n"), true
		default:
			return []byte(strings.ReplaceAll(reply, `\r\n`, "\r\n") + "\r\n"), args[0] == "SET"
		}
	})
}

// node sets the behavior of a node from now on.
func (p *player) node(args []string) error {
	i, _ := strconv.Atoi(args[0])
	node, link, what := p.memory.nodes[i], p.memory.link(i), args[len(args)-1]
	p.replies[i] = ""
	for _, name := range append(p.resources, resource) {
		if value, _ := node.Get(name); value == stranger {
			node.DB().Delete(name)
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
		p.replies[i] = what
	}
	synctest.Wait()
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

func (p *player) extendNext(args []string) error {
	var ttl time.Duration
	p.next = func(ctx context.Context) error { return p.extend(ctx, ttl) }
	return set(&ttl, args[0])
}

func (p *player) acquire(ctx context.Context) (err error) {
	if p.resources != nil {
		p.lock, err = p.client.All(p.resources...).TryAcquire(ctx, p.ttl)
		return err
	}
	p.lock, err = p.client.TryAcquire(ctx, resource, p.ttl)
	return err
}

func (p *player) release(ctx context.Context) error { return p.lock.Release(ctx) }

func (p *player) extend(ctx context.Context, ttl time.Duration) error {
	longer, err := p.lock.Extend(ctx, ttl)
	if err == nil {
		p.lock = longer
	}
	return err
}

// ask performs the pending operation.
func (p *player) ask() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch {
	case p.cancels && p.cancelAfter == 0:
		cancel()
	case p.cancels:
		timer := time.AfterFunc(max(pure.Soon, p.cancelAfter), cancel)
		defer timer.Stop()
	}
	p.cancels = false
	p.start = time.Now()
	p.err = p.next(ctx)
	p.took = time.Since(p.start)
	p.next = p.acquire
}

func (p *player) granted(args []string) error {
	p.ask()
	validity := p.lock.Validity()
	if p.err != nil {
		return fmt.Errorf("after %v: %w", p.took, p.err)
	}
	if err := p.ordered(p.lock, p.start); err != nil {
		return err
	}
	if err := within(p.took, args[0]); err != nil {
		return err
	}
	return within(validity, args[1])
}

func (p *player) ended(args []string) error {
	p.ask()
	if got := outcomeOf(p.err); got != args[0] {
		return fmt.Errorf("%s after %v: %v", got, p.took, p.err)
	}
	if err := within(p.took, args[1]); err != nil {
		return err
	}
	if len(args) == 3 {
		if got, want := causesOf(p.err), sorted(strings.Split(args[2], ", ")); got != want {
			return fmt.Errorf("causes: %s instead of %s", got, want)
		}
	}
	return nil
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
	var at time.Duration
	if err := set(&at, args[0]); err != nil {
		return err
	}
	rest := at - time.Since(p.start)
	if rest < 0 {
		return fmt.Errorf("it is %v already", time.Since(p.start))
	}
	time.Sleep(rest)
	synctest.Wait()
	got := strings.Trim(fmt.Sprint(p.memory.where(func(n *redistest.Node) bool {
		return slices.ContainsFunc(append(p.resources, resource), func(name string) bool {
			value, ok := n.Get(name)
			return ok && value != stranger
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
	const good = "ttl 10s\nnode 0 2ms +OK\nacquired after 2ms validity 9.896s\n"
	all, err := parseRounds("# a name\n" + good + "---\n# another\n" + good)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "another", all[1].name)
	for _, bad := range []string{
		"", "# nothing\n", "ttl 10s\n", good + "---\n", good + "---\n# empty\n---\n" + good,
		good + "held\n", good + "held after\n", good + "held after soon\n", good + "held after 2 ms\n", good + "held after 2xs\n",
		good + "acquired after 2ms\n", good + "acquired after 2ms validity\n", good + "acquired after 2ms validity 9\n",
		good + "no quorum after 2ms\n", good + "no quorum after 2ms :\n", good + "keys left : none\n", good + "keys left at 2ms : some\n",
		good + "node 16 2ms +OK\n", good + "node x 2ms +OK\n", good + "node 0 +OK\n", good + "node 0 2ms up\n", good + "node 0 2ms/ +OK\n",
		good + "node 0 2ms down\n", good + "node 0 slow +OK\n", good + "ttl\n", good + "ttl ten\n", good + "drift 5\n",
		good + "cancel\n", good + "extend\n", good + "release 10s\n", good + "nonsense\n", good + "resources\n", good + "node 0 holds invoice:8\n",
		good + "numbers behind\n", good + "node 0 restarts today\n", good + "late node 0\n", good + "late release\n", good + "Held after 2ms\n",
	} {
		_, err := parseRounds(bad)
		require.Error(t, err, "%q", bad)
	}
}

// A story with another outcome fails, in each of its parts.
func TestRoundsThatAreNotTrue(t *testing.T) {
	for _, c := range []struct{ nodes, outcome string }{
		{"node 0 2ms +OK", "acquired after 3ms validity 9.895s"},
		{"node 0 2ms +OK", "acquired after 2ms validity 9.895s"},
		{"node 0 2ms +OK", "held after 2ms"},
		{"node 0 2ms null", "acquired after 2ms validity 9.896s"},
		{"node 0 2ms null", "held after 1ms"},
		{"node 0 silent", "no quorum after 50ms : 1 down"},
		{"node 0 silent", "no quorum after 50ms : 2 timeout"},
		{"node 0 silent", "no quorum after 50.1ms : 1 timeout"},
		{"node 0 2ms +OK", "acquired after 2ms validity 9.896s\nkeys left at 3ms : none"},
		{"node 0 2ms null", "held after 2ms\nkeys left at 3ms : 0"},
		{"node 0 2ms null", "held after 2ms\nkeys left at 1ms : none"},
	} {
		all, err := parseRounds("ttl 10s\n" + c.nodes + "\n" + c.outcome)
		require.NoError(t, err)
		synctest.Test(t, func(t *testing.T) {
			s, last := all[0], len(all[0].lines)-1
			do := s.lines[last].do
			s.lines[last].do = func(p *player) error {
				require.Error(t, do(p), "%s\n%s", c.nodes, c.outcome)
				return nil
			}
			s.run(t)
		})
	}
}
