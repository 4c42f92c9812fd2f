package load

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakes returns an implementation, and what it was opened with.
func fakes(name string, most int) (Implementation, *[]Settings) {
	opened := &[]Settings{}
	return Implementation{Name: name, About: "a fake", MostNodes: most, Open: func(s Settings) (System, error) {
		*opened = append(*opened, s)
		return Drive[fakeLease](&fakeLocker{ttl: time.Hour}), nil
	}}, opened
}

// What a program adds can be named beside what is here, and takes its turn.
func TestOtherImplementations(t *testing.T) {
	other, opened := fakes("other", 0)
	var stdout, stderr bytes.Buffer
	args := []string{"--embedded", "--spawn=2", "-n3", "--warmup=0s", "--runs=2", "--impl=redlock,other", "-ocsv", "-q", "--node-timeout=9s", "--user=u", "--password-env=REDMUX_TEST_PASSWORD"}
	t.Setenv("REDMUX_TEST_PASSWORD", "secret")
	require.Equal(t, exitGood, Run(args, &stdout, &stderr, nil, other), &stderr)
	require.Regexp(t, `(?s)^impl,.*\nredlock,.*\nother,.*\nredlock,.*\nother,`, stdout.String())
	require.Len(t, *opened, 2)
	s := (*opened)[0]
	require.Len(t, s.URLs, 2)
	require.Equal(t, []string{"u", "secret"}, []string{s.Username, s.Password})
	require.Equal(t, 9*time.Second, s.NodeTimeout)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", s, s, s), "secret")

	stdout.Reset()
	require.Equal(t, exitGood, Run([]string{"--help"}, &stdout, io.Discard, nil, other))
	require.Contains(t, stdout.String(), "a fake")
}

func TestImplementationsThatDoNotFit(t *testing.T) {
	lone, _ := fakes("lone", 1)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--impl=redsync"}, "bench/compare"},
		{[]string{"--impl=lone", "--spawn=3"}, "at most 1 node"},
		{[]string{"--impl=lone", "--nodes=redis://a,redis://b"}, "at most 1 node"},
		{[]string{"--kind=fair", "--keys=1", "--impl=lone", "--spawn=1"}, "only --impl redlock"},
		{[]string{"--instances=0"}, "--instances 0"},
		{[]string{"--instances=3", "-c2"}, "--instances 3"},
		{[]string{"--network=tcp", "--embedded"}, "--network"},
		{[]string{"--network=udp"}, "udp"},
	} {
		var others []Implementation
		if c.says != "bench/compare" {
			others = append(others, lone)
		}
		_, err := parse(c.args, io.Discard, others...)
		require.ErrorAs(t, err, new(usageError), "%q", c.args)
		require.ErrorContains(t, err, c.says, "%q", c.args)
	}
}

// Each instance has callers and is closed.
func TestInstances(t *testing.T) {
	other, opened := fakes("other", 0)
	var stdout, stderr bytes.Buffer
	args := []string{"--embedded", "--spawn=1", "-n30", "--warmup=0s", "--impl=other", "-c6", "--instances=3", "-ojson", "-q", "--hold=1ms"}
	require.Equal(t, exitGood, Run(args, &stdout, &stderr, nil, other), &stderr)
	require.Len(t, *opened, 3)
	require.Contains(t, stdout.String(), `"instances": 3`)

	var d driver[fakeLease]
	for range 3 {
		d.join(Drive[fakeLease](unclosable{&fakeLocker{}}))
	}
	require.ErrorContains(t, d.close(t.Context()), "deadline")
	require.Len(t, d.lockers, 3)
}

// Callers reach started servers by each network.
func TestNetworks(t *testing.T) {
	for _, network := range []string{"unix", "tcp", "tls"} {
		r := measure(t, openSystem, exitGood, "--spawn=3", "--network="+network, "-n20", untilDone, patient, "--warmup=0s", "-c2", "--impl=redlock,rueidis")
		require.Len(t, r.Runs, 2)
		for _, run := range r.Runs {
			require.EqualValues(t, 20, run.Pairs, network)
		}
		require.Equal(t, network != "unix", r.Runs[0].Work.Network == network)
	}
}
