package outlook

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redmux/redmux/cmd/redlock/internal/probe"
	"github.com/redmux/redmux/conn"
	"github.com/redmux/redmux/internal/pure"
)

const (
	second = time.Second
	maxTTL = time.Minute
	need   = 60605 * time.Millisecond
)

// nodes returns what is found on three nodes that have run for an hour and carry
// no seal.
func nodes() (names []string, all []Node) {
	for i := range 3 {
		names = append(names, pure.NameOf(fmt.Sprintf("10.0.0.%d:6379", i), 0))
		run := fmt.Sprint("run", i)
		all = append(all, Node{ClockKnown: true, Facts: probe.Facts{
			Server: conn.Server{RunID: run, Unpromoted: true, Uptime: time.Hour}, Seal: probe.Seal{State: probe.SealAbsent},
		}})
	}
	return names, all
}

// seal puts sufficient seals of one deployment on nodes.
func seal(names []string, all []Node, which ...int) {
	members := []string{"0123456789abcde0", "0123456789abcde1", "0123456789abcde2"}
	var known pure.Names
	for i, name := range names {
		known = known.With(members[i], name)
	}
	for _, i := range which {
		all[i].Seal = probe.Seal{State: probe.SealThere, Seal: pure.Seal{
			Seat: pure.Seat{Member: members[i], Open: pure.IdentityOf(members)}, Names: known, Run: all[i].RunID(), MaxTTL: maxTTL, Watched: need,
		}}
	}
}

// The outlook is that of a client that starts now (R23, R29, R30).
func TestStanding_R23_R29_R30(t *testing.T) {
	for name, c := range map[string]struct {
		does    func(names []string, all []Node)
		durable bool
		left    time.Duration // of node 0
		why     string
	}{
		"a new set":                        {func([]string, []Node) {}, false, 0, "not opened yet"},
		"a node started a short while ago": {func(_ []string, all []Node) { all[2].Server.Uptime = 12 * second }, false, need - 10*second, "not opened yet"},
		"it is not believed":               {func(_ []string, all []Node) { all[2].Server.Unpromoted = false }, false, need, "not opened yet"},
		"nor another's clock":              {func(_ []string, all []Node) { all[2].Clock.Ahead = -2 * second }, false, need, "not opened yet"},
		"nor an unknown one":               {func(_ []string, all []Node) { all[2].ClockKnown = false }, false, need, "not opened yet"},
		"durable, a new set":               {func(_ []string, all []Node) { all[2].Server.Uptime = 12 * second }, true, need - 10*second, "not opened yet"},
		"sealed":                           {func(names []string, all []Node) { seal(names, all, 0, 1, 2) }, false, 0, ""},
		"of too few":                       {func(names []string, all []Node) { seal(names, all, 0) }, false, 0, "no quorum is sealed"},
		"it is not sealed":                 {func(names []string, all []Node) { seal(names, all, 1, 2) }, false, need, pure.WhyFirst},
		"restarted":                        {func(names []string, all []Node) { seal(names, all, 0, 1, 2); all[0].Seal.Run = "x" }, false, need, pure.WhyFirst},
		"restarted, and durable":           {func(names []string, all []Node) { seal(names, all, 0, 1, 2); all[0].Seal.Run = "x" }, true, 0, ""},
		"replaced, and durable":            {func(names []string, all []Node) { seal(names, all, 0, 1, 2); all[0].Seal.Watched = 0 }, true, need, pure.WhyFirst},
		"an aged seal": {func(names []string, all []Node) {
			seal(names, all, 0, 1, 2)
			all[0].Seal.Watched, all[0].Seal.Uptime = second, 3550*second
		}, false, need - 49*second, pure.WhyFirst},
		"another deployment": {func(names []string, all []Node) {
			seal(names, all, 0, 1, 2)
			all[1].Seal.Open.ID = "b"
		}, false, 0, "another deployment"},
		"not a member": {func(names []string, all []Node) {
			seal([]string{"x", names[1], names[2]}, all, 1, 2)
		}, false, 0, "not a member"},
		"not read":    {func(_ []string, all []Node) { all[0].Seal.State = probe.SealUnknown }, false, 0, WhyUnread},
		"strange":     {func(_ []string, all []Node) { all[0].Seal.State = probe.SealStrange }, false, 0, WhyStrange},
		"not reached": {func(_ []string, all []Node) { all[0].Err = errors.New("refused") }, false, 0, ""},
		"listed": {func(names []string, all []Node) {
			seal(names, all, 0)
			all[0].Seal.Listed, all[0].Seal.Open = all[0].Seal.Open, pure.Identity{}
		}, false, 0, "not opened yet"},
		"listed for others": {func(names []string, all []Node) {
			seal([]string{"x", names[1], names[2]}, all, 0)
			all[0].Seal.Listed, all[0].Seal.Open = all[0].Seal.Open, pure.Identity{}
		}, false, 0, "being opened"},
	} {
		t.Run(name, func(t *testing.T) {
			names, all := nodes()
			c.does(names, all)
			o := New(names, []bool{c.durable, c.durable, c.durable}, maxTTL)
			o.Look(all, 0)
			left, why := o.Standing(0, 0)
			assert.Equal(t, c.left, left)
			assert.Equal(t, c.why, why)
			forgetful := New(names, make([]bool, 3), 0)
			forgetful.Look(all, 0)
			_, why = forgetful.Standing(0, 0)
			assert.Empty(t, why)
		})
	}
}

// What is watched between looks counts, as it would for a client.
func TestStandingAsTimePasses_R23(t *testing.T) {
	names, all := nodes()
	seal(names, all, 1, 2)
	o := New(names, make([]bool, 3), maxTTL)
	o.Look(all, 0)
	left, _ := o.Standing(0, 20*second)
	assert.Equal(t, need-20*second, left)
	passes, inevitable := o.Quarantined(0, 20*second)
	assert.Equal(t, need-20*second, passes)
	assert.Zero(t, inevitable)
	o.Look(all, 20*second)
	left, why := o.Standing(0, need)
	assert.Zero(t, left)
	assert.Empty(t, why)
	assert.Equal(t, all[1].Seal.Open, o.Deployment().Shown(1))

	all[2].Seal.Seat = all[1].Seal.Seat
	o.Look(all, need)
	_, why = o.Standing(2, need)
	assert.Equal(t, "the same member as another", why)
}

// Where servers may change, a client that starts now also waits for what a
// former primary may grant, as clients do: see TestEachClientWatchesANodeThatFailsOver_R29
// of package multiplex.
func TestStandingOfServersThatFailOver_R23(t *testing.T) {
	const bound = 4 * second
	alone := pure.Failover{Expected: true, Bound: bound}.Alone(pure.DefaultDriftFactor)
	replicas := probe.Lines{"min-replicas-to-write": "1", "min-replicas-max-lag": "2"}
	for name, c := range map[string]struct {
		does       func(n *Node)
		inevitable time.Duration
		left       time.Duration // with a seal that says enough, and with one of another server
		leftAnew   time.Duration
	}{
		"declared":    {func(n *Node) { n.Failover.Bound = bound }, alone, alone, need + alone},
		"unknown":     {func(n *Node) { n.Failover.Bound = -1 }, need, need, need},
		"a cluster":   {func(n *Node) { n.Failover.Bound, n.Server.Mode = bound, "cluster" }, need + alone, need + alone, need + alone},
		"told":        {func(n *Node) { n.Config = replicas }, alone, alone, need + alone},
		"not told":    {func(n *Node) {}, need, need, need},
		"no history":  {func(n *Node) { n.Config, n.Server.History = replicas, "" }, need, need, need},
		"sealed away": {func(n *Node) { n.Config, n.Seal.Failover = replicas, pure.Failover{Expected: true} }, need, need, need},
		"a lone one":  {func(n *Node) { n.Config, n.Failover.Expected = replicas, false }, 0, 0, need},
	} {
		t.Run(name, func(t *testing.T) {
			for _, anew := range []bool{false, true} {
				names, all := nodes()
				all[0].Failover.Expected, all[0].Server.History = true, "h"
				all[0].Info = probe.Lines{"connected_slaves": "1"}
				seal(names, all, 0, 1, 2)
				c.does(&all[0])
				all[0].Seal.Run, all[0].Seal.Watched = all[0].Process(), need+alone
				want := c.left
				if anew {
					all[0].Seal.Run, want = "another", c.leftAnew
				}
				o := New(names, make([]bool, 3), maxTTL)
				o.Look(all, 0)
				left, inevitable := o.Quarantined(0, 0)
				assert.Equal(t, []time.Duration{want, c.inevitable}, []time.Duration{left, inevitable}, "anew: %t", anew)
			}
		})
	}
}
