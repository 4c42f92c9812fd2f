package redlock_test

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/resp"
)

var update = flag.Bool("update", false, "rewrite the golden files of testdata/errors")

// A golden is the file of one state: the texts that a caller gets. An entry is
// a line with a place, and the error's text below it, one node per line.
type golden struct {
	testing.TB
	path    string
	about   string
	servers *fleet
	want    map[string]string // the content of the file, by the text before the first colon
	got     []string
	told    []string // every text that was shown (R27)
}

func newGolden(f *fleet, name, about string) *golden {
	f.Helper()
	g := &golden{TB: f, path: filepath.Join("..", "testdata", "errors", name+".txt"), about: about, servers: f}
	g.want = make(map[string]string)
	text, err := os.ReadFile(g.path)
	if err != nil && !*update {
		f.Fatal(err)
	}
	for _, entry := range regexp.MustCompile(`(?m)^[^#\s].*\n(?:    .*\n)*`).FindAllString(string(text), -1) {
		where, _, _ := strings.Cut(entry, ":")
		g.want[where] = entry
	}
	return g
}

// mostTries is how often a busy server is asked: each try may take a lock from
// the stock, and all of them take some three seconds.
const mostTries = 35

// expect asks until the answer is sound and matches the file: a node that goes
// down may be described differently for a moment, and a vote may come late on a
// busy machine. An answer that never matches is not noise.
func (g *golden) expect(where string, ask func() error, sound func(error) error) {
	g.Helper()
	var entry string
	var problem error
	for start, tries := time.Now(), 1; ; tries++ {
		err := ask()
		g.tell(err)
		entry = where + ": " + g.describe(err)
		problem = sound(err)
		settled := entry == g.want[where] || *update && tries > 2
		if problem == nil && settled || time.Since(start) > time.Second && tries >= mostTries {
			break
		}
		time.Sleep(time.Duration(5*min(tries, mostTries)) * time.Millisecond)
	}
	if problem != nil {
		g.Errorf("%s: %v", where, problem)
	}
	g.got = append(g.got, entry)
}

// check compares with the file, or writes it.
func (g *golden) check() {
	g.Helper()
	if *update {
		text := "# " + g.about + "\n# Written by: go test ./redlock -run TestErrorMatrix -update\n\n" + strings.Join(g.got, "")
		if err := os.WriteFile(g.path, []byte(text), 0o600); err != nil {
			g.Fatal(err)
		}
		return
	}
	for _, entry := range g.got {
		where, _, _ := strings.Cut(entry, ":")
		if entry != g.want[where] {
			g.Errorf("%s says\n%snot\n%s", g.path, g.want[where], entry)
		}
		delete(g.want, where)
	}
	for where := range g.want {
		g.Errorf("%s has %q, which was not asked", g.path, where)
	}
}

// describe turns an error into a text that is the same in each run and for each
// server: it replaces addresses and the numbers of resources, and keeps only
// the first of the servers' own words.
func (g *golden) describe(err error) string {
	if err == nil {
		return "done\n"
	}
	text := inFewWords(err)
	for i, s := range g.servers.servers {
		text = strings.ReplaceAll(text, s.TCPAddr(), fmt.Sprintf("address%d", i))
	}
	text = regexp.MustCompile(`"stock:\d+"`).ReplaceAllString(text, `"stock"`)
	text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "ours")
	text = regexp.MustCompile(`([:;]) (node \d+ \()`).ReplaceAllString(text, "$1\n    $2")
	return outcome(err) + "\n    " + text + "\n"
}

// inFewWords returns an error's text with only the first of the servers' own
// words. Causes that differ in these words alone are listed as one, as they are
// if all servers are of one kind.
func inFewWords(err error) string {
	text := err.Error()
	var all *multiplex.UndecidedError
	if errors.As(err, &all) {
		few := multiplex.UndecidedError{Of: all.Of}
		for _, n := range all.Nodes {
			_, cause, _ := strings.Cut(n.Error(), n.Addr+"): ")
			few.Nodes = append(few.Nodes, &multiplex.NodeError{Node: n.Node, Addr: n.Addr, Err: errors.New(firstWords(cause, n))})
		}
		text = strings.Replace(text, strings.Join(all.Causes(), "; "), strings.Join(few.Causes(), "; "), 1)
	}
	return firstWords(text, err)
}

// firstWords returns a text with only the first word of each error reply in a
// chain.
func firstWords(text string, err error) string {
	for _, e := range chain(err) {
		if refusal, ok := e.(*resp.Error); ok {
			text = strings.ReplaceAll(text, refusal.Message, refusal.Prefix()+" …")
		}
	}
	return text
}

// outcome returns what an error is by errors.Is, and the class of each node's
// cause.
func outcome(err error) string {
	var all *multiplex.UndecidedError
	switch {
	case errors.Is(err, redlock.ErrHeld):
		return "ErrHeld"
	case errors.Is(err, redlock.ErrNotHeld):
		return "ErrNotHeld"
	case errors.Is(err, redlock.ErrNoQuorum) && errors.As(err, &all):
		var causes []string
		for _, n := range all.Nodes {
			causes = append(causes, cause(n))
		}
		return "ErrNoQuorum, " + strings.Join(causes, ", ")
	}
	return cause(err)
}

// cause returns a node's reason.
func cause(err error) string {
	if class := class(err); class != conn.ClassNone {
		return class.String()
	}
	switch {
	case errors.Is(err, multiplex.ErrTimeout):
		return "ErrTimeout"
	case errors.Is(err, multiplex.ErrSilent):
		return "ErrSilent"
	case errors.Is(err, multiplex.ErrNotMaster):
		return "ErrNotMaster"
	}
	return "unknown"
}

// class returns the class of a node's error, in the handshake or later (R24).
func class(err error) conn.Class {
	var refusal *multiplex.RefusalError
	if errors.As(err, &refusal) {
		return refusal.Class
	}
	return conn.ErrorClass(err)
}

// chain returns an error and all that it wraps.
func chain(err error) (all []error) {
	if err == nil {
		return nil
	}
	all = append(all, err)
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		all = append(all, chain(e.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, chain(inner)...)
		}
	}
	return all
}

// tell records all printed forms of some values, for errors also of all that
// they wrap.
func (g *golden) tell(values ...any) {
	for _, v := range values {
		g.told = append(g.told, fmt.Sprintf("%v %+v %#v", v, v, v))
		err, _ := v.(error)
		for _, e := range chain(err) {
			g.told = append(g.told, fmt.Sprintf("%v %+v %#v %q", e, e, e, e))
		}
	}
}

// keepsSecret checks that no recorded text contains a secret, in any usual
// spelling (R27).
func (g *golden) keepsSecret(secrets ...string) {
	g.Helper()
	slices.Sort(g.told)
	for _, text := range slices.Compact(g.told) {
		for _, s := range secrets {
			quoted := strings.Trim(fmt.Sprintf("%q", s), `"`)
			if strings.Contains(text, s) || strings.Contains(text, quoted) || strings.Contains(text, hex.EncodeToString([]byte(s))) {
				g.Errorf("R27: a secret is told in %q", text)
				break
			}
		}
	}
	if len(g.told) < 10 {
		g.Errorf("only %d texts were looked at", len(g.told))
	}
}
