package doctor

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/stretchr/testify/assert"
)

// behind returns a sound deployment, the first node of which is behind three
// sentinels that are as they should be.
func behind() *Deployment {
	d := sound(3)
	failover(1, 5*time.Second)(d)
	for i := range 3 {
		d.Nodes[0].Around.Seeds = append(d.Nodes[0].Around.Seeds, probe.Seed{
			Addr: fmt.Sprintf("s%d:26379", i), Sentinel: true, Master: "10.0.0.0:6379", Quorum: "OK",
			Watch: probe.Lines{"num-other-sentinels": "2", "quorum": "2", "down-after-milliseconds": "5000"},
		})
		d.Nodes[0].Around.Announced = append(d.Nodes[0].Around.Announced, probe.Announced{
			Addr: fmt.Sprintf("10.0.0.%d:6379", i), By: "s0:26379", Said: []string{fmt.Sprintf("RUN%d", i)}, ID: fmt.Sprintf("run%d", i),
		})
	}
	return d
}

func TestWhatSurroundsANodeThatFailsOver(t *testing.T) {
	seed := func(k int, change func(s *probe.Seed)) func(*Deployment) {
		return func(d *Deployment) {
			for i := range k {
				change(&d.Nodes[0].Around.Seeds[i])
			}
		}
	}
	watch := func(k int, name, value string) func(*Deployment) {
		return seed(k, func(s *probe.Seed) { s.Watch[name] = value })
	}
	server := func(change func(a *probe.Announced)) func(*Deployment) {
		return func(d *Deployment) { change(&d.Nodes[0].Around.Announced[1]) }
	}
	two := func(d *Deployment) { d.Nodes[0].Around.Seeds = d.Nodes[0].Around.Seeds[:2] }
	for name, c := range map[string]struct {
		change  func(*Deployment)
		want    string // "" for nothing
		sight   string
		unknown string
	}{
		"sound":                  {change: func(*Deployment) {}},
		"a sentinel is away":     {seed(1, func(s *probe.Seed) { s.Err = errors.New("refused") }), "warning seeds", "s0:26379: refused", ""},
		"all are, and no server": {all(seed(3, func(s *probe.Seed) { s.Err = errors.New("refused") }), with(1, func(n *Node) { n.Err = errors.New("x") })), "warning seeds", "s0:26379: refused", ""},
		"two masters":            {seed(1, func(s *probe.Seed) { s.Master = "10.0.0.9:1" }), "warning seeds", "s0:26379: names 10.0.0.9:1", ""},
		"no quorum":              {seed(1, func(s *probe.Seed) { s.Quorum = "NOQUORUM 1 usable" }), "warning sentinel-quorum", "s0:26379: NOQUORUM 1 usable", ""},
		"no right to ask, and a quorum of too many": {all(watch(1, "quorum", "4"), seed(1, func(s *probe.Seed) { s.Quorum = "" })),
			"warning sentinel-quorum", "s0:26379: quorum 4, and it knows 3 sentinels", ""},
		"a stranger":           {watch(1, "num-other-sentinels", "1"), "warning sentinel-quorum", "s0:26379: knows 2 sentinels, and the URL names 3", ""},
		"two sentinels":        {all(two, watch(2, "num-other-sentinels", "1")), "warning sentinel-quorum", "s0:26379: knows 2 sentinels", ""},
		"others than are told": {watch(1, "num-other-sentinels", "4"), "note sentinel-quorum", "s0:26379: knows 5 sentinels, and the URL names 3", ""},
		"no right to ask": {seed(1, func(s *probe.Seed) { s.Watch, s.Quorum = nil, "" }), "",
			"s0:26379: no quorum, and no down-after-milliseconds", "sentinel-quorum"},
		"a server of a cluster": {seed(3, func(s *probe.Seed) { s.Sentinel, s.Watch, s.Quorum = false, nil, "" }), "", "", ""},
		"noticed late": {watch(1, "down-after-milliseconds", "33000"), "warning failover",
			"a loss is noticed after 33s, a former primary may grant for 8.085s, and MaxTTL is 1m0s", ""},
		"no answer there": {server(func(a *probe.Announced) { a.Err = errors.New("refused") }), "warning announced",
			"10.0.0.1:6379, named by s0:26379: refused", ""},
		"nor for sentinels": {server(func(a *probe.Announced) { a.Err, a.Down = errors.New("refused"), true }), "warning announced",
			"10.0.0.1:6379, named by s0:26379: refused; sentinels do not reach it either", ""},
		"another server": {server(func(a *probe.Announced) { a.ID = "0123456789" }), "warning announced",
			"10.0.0.1:6379, named by s0:26379: leads to another server, or to one that restarted a moment ago: 01234567, not RUN1", ""},
		"one of two answers":  {server(func(a *probe.Announced) { a.ID, a.Said = "0123456789", []string{"x", "0123456789"} }), "", "", ""},
		"one server twice":    {server(func(a *probe.Announced) { a.ID, a.Said = "run0", nil }), "warning announced", "10.0.0.1:6379 is the same server as 10.0.0.0:6379", ""},
		"it may not be asked": {server(func(a *probe.Announced) { a.ID = "" }), "", "10.0.0.1:6379: no id", "announced"},
		"too many":            {with(1, func(n *Node) { n.Around.More = true }), "", "more addresses than are tried", "announced"},
	} {
		t.Run(name, func(t *testing.T) {
			d := behind()
			known := len(Examine(*d).Unknown)
			c.change(d)
			r := Examine(*d)
			var got []string
			var seen []Sight
			for _, f := range r.Findings {
				if f.Check != "reachable" { // in the case without a server
					got, seen = append(got, string(f.Level)+" "+f.Check), f.Seen
				}
			}
			if c.want == "" {
				assert.Empty(t, got)
			} else {
				assert.Equal(t, []string{c.want}, got)
			}
			var unknown []string
			for _, u := range r.Unknown[min(known, len(r.Unknown)):] {
				unknown = append(unknown, u.Check)
			}
			for _, u := range r.Unknown {
				if u.Check == c.unknown {
					seen = u.Seen
				}
			}
			assert.Equal(t, c.unknown != "", len(unknown) > 0, "%+v", r.Unknown)
			if c.sight != "" && assert.NotEmpty(t, seen) {
				assert.Equal(t, Sight{d.Nodes[0].Addr, c.sight}, seen[0])
			}
		})
	}
}
