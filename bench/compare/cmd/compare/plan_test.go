package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redmux/redmux/bench/compare"
	"github.com/redmux/redmux/bench/compare/internal/report"
)

func parsed(t *testing.T, args ...string) *flags {
	t.Helper()
	f, err := parse(args, io.Discard)
	require.NoError(t, err)
	return f
}

func TestPlanCoversAllCases(t *testing.T) {
	counts := map[report.Kind]int{}
	for _, b := range parsed(t, "--syscalls").plan() {
		for _, c := range b.cases {
			counts[c.Kind]++
			if c.Kind == report.Stopped || c.Kind == report.Stopping {
				assert.Equal(t, 5, c.Nodes)
			}
		}
	}
	assert.Equal(t, map[report.Kind]int{
		report.Healthy: 28, report.Stopped: 12, report.Stopping: 4, report.Counting: 4,
	}, counts)

	counts = map[report.Kind]int{}
	for _, b := range parsed(t, "--no-stopped", "--network", "unix", "--nodes", "5", "--callers", "7,8").plan() {
		for _, c := range b.cases {
			counts[c.Kind]++
			assert.Equal(t, "unix", c.Network)
		}
	}
	assert.Equal(t, map[report.Kind]int{report.Healthy: 2}, counts)
}

// make bench ends in three quarters of an hour, and the table of the best peers
// has all of its cases.
func TestTheDefaultPlan(t *testing.T) {
	f := parsed(t, "--syscalls")
	plan := f.plan()
	windows, took := f.estimate(plan)
	t.Logf("%d windows, %v", windows, took)
	assert.Less(t, took, 42*time.Minute, "and some minutes for what no estimate knows")
	has := map[report.Case]bool{}
	for _, b := range plan {
		for _, c := range b.cases {
			has[c] = true
		}
	}
	for _, kind := range []report.Kind{report.Healthy, report.Stopped} {
		for _, network := range []string{"tcp", "unix", "tls"} {
			for _, callers := range []int{1, 16, 128, 1024} {
				assert.Contains(t, has, report.Case{Kind: kind, Network: network, Nodes: 5, Callers: callers})
			}
		}
	}
}

func TestTheEstimate(t *testing.T) {
	f := parsed(t, "--peers", "redlock,redsync", "--nodes", "5", "--callers", "1", "--network", "tls", "--rounds", "3",
		"--window", "1s", "--warmup", "100ms", "--settle", "2s", "--stop-window", "0")
	windows, took := f.estimate(f.plan())
	assert.Equal(t, 2*2*3, windows)
	assert.Equal(t, 2*3*(2*(1100*time.Millisecond+overhead)+2*time.Second), took)
}

// With fewer than three masters the rest is no quorum.
func TestOfTwoMastersNoneIsStopped(t *testing.T) {
	for _, b := range parsed(t, "--nodes", "1,2").plan() {
		for _, c := range b.cases {
			assert.Equal(t, report.Healthy, c.Kind)
		}
	}
}

// Every peer comes first once in as many rounds as there are peers, and has one
// turn per round.
func TestPeersTakeTurns(t *testing.T) {
	f := parsed(t, "--peers", "redlock,rueidis,redsync")
	b := block{[]report.Case{{Kind: report.Healthy, Network: "tcp", Nodes: 5, Callers: 16}}}
	var orders []string
	for round := range 3 {
		var order []string
		for i, turn := range f.turns(b, round) {
			assert.Equal(t, i, turn.place)
			order = append(order, turn.peer.Name)
		}
		orders = append(orders, strings.Join(order, " "))
	}
	assert.Equal(t, []string{"redlock rueidis redsync", "rueidis redsync redlock", "redsync redlock rueidis"}, orders)
}

func TestWhoTakesPart(t *testing.T) {
	takes := func(name string, c report.Case) bool {
		p, err := compare.Find(name)
		require.NoError(t, err)
		return parsed(t).takesPart(p, c)
	}
	lone := report.Case{Kind: report.Healthy, Network: "tcp", Nodes: 1, Callers: 1}
	five := report.Case{Kind: report.Healthy, Network: "tcp", Nodes: 5, Callers: 16}
	stopping := report.Case{Kind: report.Stopping, Network: "tcp", Nodes: 5, Callers: 16}
	assert.True(t, takes("redislock", lone))
	assert.False(t, takes("redislock", five), "it knows one master")
	assert.True(t, takes(compare.Redsync, five))
	assert.False(t, takes(compare.Redsync, stopping))
	assert.True(t, takes(compare.Ours, stopping))
	assert.True(t, takes(compare.Default, stopping))
	over := five
	over.Network = "tls"
	assert.True(t, takes(compare.Async, over))
	assert.True(t, takes(compare.DefaultAll, five))
	assert.False(t, takes(compare.DefaultAll, over), "a variant")
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--assert", "--quick"},
		{"--quick --from-json x", "--from-json"},
		{"--rounds 0", "--rounds"},
		{"--window 0s", "--window"},
		{"--warmup=-1s", "negative"},
		{"--nodes 0", "--nodes 0"},
		{"--nodes 17", "--nodes 17"},
		{"--callers 0", "--callers 0"},
		{"--peers nobody", "nobody"},
		{"--peers redlock,redlock", "twice"},
		{"--network udp", "network"},
		{"--nonsense", "nonsense"},
	} {
		_, err := parse(strings.Fields(c.args), io.Discard)
		var usage usageError
		require.ErrorAs(t, err, &usage, c.args)
		assert.ErrorContains(t, err, c.want, c.args)
	}
	var help strings.Builder
	_, err := parse([]string{"--help"}, &help)
	require.ErrorIs(t, err, errHelp)
	assert.Contains(t, help.String(), "--from-json")
}
