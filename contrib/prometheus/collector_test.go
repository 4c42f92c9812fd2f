package redlockprometheus

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/multiplex"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/require"
)

// fixed is a source whose numbers are all different, so that no two can be
// confused.
type fixed struct{}

func (fixed) Stats() redlock.Stats {
	s := redlock.Stats{
		Attempts:   redlock.CallCounts{Granted: 1, Held: 2, NoQuorum: 3, Expired: 4, Overloaded: 5, Cancelled: 6, Closed: 7, Invalid: 8, NotHeld: 9},
		Extensions: redlock.CallCounts{Granted: 11, Held: 12, NoQuorum: 13, Expired: 14, Overloaded: 15, Cancelled: 16, Closed: 17, Invalid: 18, NotHeld: 19},
		Releases:   redlock.CallCounts{Granted: 21, Held: 22, NoQuorum: 23, Expired: 24, Overloaded: 25, Cancelled: 26, Closed: 27, Invalid: 28, NotHeld: 29},
	}
	s.HoldsBegun, s.LostNotHeld, s.ElectionsLed, s.ElectionsLost = 65, 22, 66, 67
	s.Holds, s.Lost, s.Waits.Counts[0], s.Waits.Sum = 61, 62, 63, 64*time.Second
	s.Quorum.Counts[0], s.Quorum.Counts[10], s.Quorum.Counts[len(s.Quorum.Counts)-1] = 1, 2, 4
	s.Quorum.Sum = 300 * time.Second
	return s
}

func (fixed) Nodes() []redlock.NodeStatus {
	return []redlock.NodeStatus{
		{
			Addr: "a:6379", State: "up", Debts: 31, Connects: 32, ReplyTime: 33 * time.Millisecond,
			Quarantined: true, QuarantineLeft: 34 * time.Second, Warnings: []string{"x", "y"},
			Counts: multiplex.NodeCounts{
				Granted: 41, Refused: 42, Failed: 43, TimedOut: 44, Absent: 45, Quarantined: 46, Late: 47, Overdue: 48,
				Errors: map[string]uint64{"OOM": 49}, Dials: 50, DialFailures: 51, Deaths: map[string]uint64{"silent": 52},
				Probes: 53, Cures: 54, DebtsMade: 55, DebtsPaid: 56, DebtsExpired: 57,
			},
		},
		{Addr: "/run/b.sock", State: "down"},
		{Addr: "c:6379", State: "shed"},
		{Addr: "/run/\xff.sock", State: "up"},
	}
}

// Each number appears under its own name.
func TestEachNumber(t *testing.T) {
	got := text(t, newCollector(fixed{}, Options{Labels: prometheus.Labels{"deployment": "billing"}}))
	for _, line := range []string{
		`redlock_calls_total{call="attempt",deployment="billing",outcome="granted"} 1`,
		`redlock_calls_total{call="attempt",deployment="billing",outcome="held"} 2`,
		`redlock_calls_total{call="attempt",deployment="billing",outcome="no_quorum"} 3`,
		`redlock_calls_total{call="attempt",deployment="billing",outcome="expired"} 4`,
		`redlock_calls_total{call="attempt",deployment="billing",outcome="overloaded"} 5`,
		`redlock_calls_total{call="attempt",deployment="billing",outcome="cancelled"} 6`,
		`redlock_calls_total{call="attempt",deployment="billing",outcome="closed"} 7`,
		`redlock_calls_total{call="attempt",deployment="billing",outcome="invalid"} 8`,
		`redlock_calls_total{call="attempt",deployment="billing",outcome="not_held"} 9`,
		`redlock_calls_total{call="extension",deployment="billing",outcome="granted"} 11`,
		`redlock_calls_total{call="release",deployment="billing",outcome="invalid"} 28`,
		`redlock_quorum_seconds_bucket{deployment="billing",le="1.024e-06"} 1`,
		`redlock_quorum_seconds_bucket{deployment="billing",le="0.000524288"} 1`,
		`redlock_quorum_seconds_bucket{deployment="billing",le="0.001048576"} 3`,
		`redlock_quorum_seconds_bucket{deployment="billing",le="68.719476736"} 3`,
		`redlock_quorum_seconds_bucket{deployment="billing",le="+Inf"} 7`,
		`redlock_quorum_seconds_sum{deployment="billing"} 300`,
		`redlock_quorum_seconds_count{deployment="billing"} 7`,
		`redlock_holds{deployment="billing"} 61`,
		`redlock_holds_begun_total{deployment="billing"} 65`,
		`redlock_lost_total{cause="not_held",deployment="billing"} 22`,
		`redlock_lost_total{cause="expired",deployment="billing"} 40`,
		`redlock_elections_led_total{deployment="billing"} 66`,
		`redlock_elections_lost_total{deployment="billing"} 67`,
		`redlock_wait_seconds_count{deployment="billing"} 63`,
		`redlock_wait_seconds_sum{deployment="billing"} 64`,
		`redlock_quorum_nodes{deployment="billing"} 3`,
		`redlock_node_up{deployment="billing",node="a:6379"} 1`,
		`redlock_node_up{deployment="billing",node="/run/b.sock"} 0`,
		`redlock_node_up{deployment="billing",node="c:6379"} 0`,
		`redlock_node_up{deployment="billing",node="\"/run/\\xff.sock\""} 1`,
		`redlock_node_quarantined{deployment="billing",node="a:6379"} 1`,
		`redlock_node_quarantined{deployment="billing",node="c:6379"} 0`,
		`redlock_node_quarantine_left_seconds{deployment="billing",node="a:6379"} 34`,
		`redlock_node_debts{deployment="billing",node="a:6379"} 31`,
		`redlock_node_reply_time_seconds{deployment="billing",node="a:6379"} 0.033`,
		`redlock_node_warnings{deployment="billing",node="a:6379"} 2`,
		`redlock_node_votes_total{deployment="billing",node="a:6379",vote="granted"} 41`,
		`redlock_node_votes_total{deployment="billing",node="a:6379",vote="refused"} 42`,
		`redlock_node_votes_total{deployment="billing",node="a:6379",vote="failed"} 43`,
		`redlock_node_missed_votes_total{cause="timed_out",deployment="billing",node="a:6379"} 44`,
		`redlock_node_missed_votes_total{cause="absent",deployment="billing",node="a:6379"} 45`,
		`redlock_node_missed_votes_total{cause="quarantined",deployment="billing",node="a:6379"} 46`,
		`redlock_node_late_replies_total{deployment="billing",node="a:6379"} 47`,
		`redlock_node_overdue_replies_total{deployment="billing",node="a:6379"} 48`,
		`redlock_node_errors_total{class="OOM",deployment="billing",node="a:6379"} 49`,
		`redlock_node_connects_total{deployment="billing",node="a:6379"} 32`,
		`redlock_node_dials_total{deployment="billing",node="a:6379"} 50`,
		`redlock_node_dial_failures_total{deployment="billing",node="a:6379"} 51`,
		`redlock_node_deaths_total{cause="silent",deployment="billing",node="a:6379"} 52`,
		`redlock_node_probes_total{deployment="billing",node="a:6379"} 53`,
		`redlock_node_cures_total{deployment="billing",node="a:6379"} 54`,
		`redlock_node_debts_total{deployment="billing",fate="made",node="a:6379"} 55`,
		`redlock_node_debts_total{deployment="billing",fate="paid",node="a:6379"} 56`,
		`redlock_node_debts_total{deployment="billing",fate="expired",node="a:6379"} 57`,
	} {
		require.Contains(t, got, line+"\n")
	}
	problems, err := testutil.CollectAndLint(newCollector(fixed{}, Options{}))
	require.NoError(t, err)
	require.Empty(t, problems)
	require.Contains(t, text(t, newCollector(fixed{}, Options{Namespace: "locks"})), "\nlocks_node_up{")
}

// Outcomes of calls and causes of losses are words of redlock.Outcome (R12).
func TestOutcomesHaveTheWordsOfTheLibrary_R12(t *testing.T) {
	words := slices.Sorted(maps.Keys(maps.Collect(redlock.CallCounts{}.All())))
	sent := valuesOf(t)
	require.Equal(t, words, slices.Sorted(maps.Keys(sent["redlock_calls_total"]["outcome"])))
	require.Subset(t, words, slices.Collect(maps.Keys(sent["redlock_lost_total"]["cause"])))
}

// The alerts in the documentation name only metrics, labels and values of
// labels that exist. They name what they wait for, and not what they do not:
// another outcome than a grant may be the caller's own doing.
func TestAlertsNameWhatIsSent_R12(t *testing.T) {
	text, err := os.ReadFile("../../docs/deploy.md")
	require.NoError(t, err)
	sent, matched := valuesOf(t), 0
	for _, name := range regexp.MustCompile(`\bredlock_[a-z_]+`).FindAllString(string(text), -1) {
		require.Contains(t, sent, name)
	}
	alerts := strings.Split(string(text), "- alert: ")[1:]
	require.NotEmpty(t, alerts)
	for _, alert := range alerts {
		alert, _, _ = strings.Cut(alert, "```")
		labels := map[string]bool{"job": true} // which a scrape adds
		for _, named := range regexp.MustCompile(`\b(redlock_[a-z_]+)(?:\{(.*?)\})?`).FindAllStringSubmatch(alert, -1) {
			of := sent[named[1]]
			for label := range of {
				labels[label] = true
			}
			for matcher := range strings.SplitSeq(named[2], ",") {
				if matcher = strings.TrimSpace(matcher); matcher == "" {
					continue
				}
				parts := regexp.MustCompile(`^([a-z]+)=~?"([a-z_|]+)"$`).FindStringSubmatch(matcher)
				require.NotNil(t, parts, "%s in %s", matcher, alert)
				for value := range strings.SplitSeq(parts[2], "|") {
					require.True(t, of[parts[1]][value], "%s: %s in %s", value, matcher, alert)
					matched++
				}
			}
		}
		for _, used := range regexp.MustCompile(`\$labels\.([a-z]+)|(?:by|without) \(([a-z]+)\)`).FindAllStringSubmatch(alert, -1) {
			require.True(t, labels[used[1]+used[2]], "%s in %s", used[0], alert)
		}
	}
	require.Positive(t, matched)
}

// valuesOf returns the values of each label of each metric.
func valuesOf(t *testing.T) map[string]map[string]map[string]bool {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newCollector(fixed{}, Options{}))
	families, err := registry.Gather()
	require.NoError(t, err)
	all := make(map[string]map[string]map[string]bool)
	for _, f := range families {
		of := make(map[string]map[string]bool)
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if of[l.GetName()] == nil {
					of[l.GetName()] = make(map[string]bool)
				}
				of[l.GetName()][l.GetValue()] = true
			}
		}
		all[f.GetName()] = of
	}
	return all
}

// Invalid labels are an error at registration, and never a panic.
func TestOptionsThatCannotWork(t *testing.T) {
	for _, o := range []Options{
		{Labels: prometheus.Labels{"": "x"}}, {Labels: prometheus.Labels{"a": "\xff"}}, {Labels: prometheus.Labels{"node": "x"}},
		{Namespace: "\xff"},
	} {
		require.Error(t, prometheus.NewPedanticRegistry().Register(newCollector(fixed{}, o)), "%v", o)
	}
	for _, label := range []string{"call", "outcome", "node", "vote", "cause", "class", "fate"} {
		require.Error(t, prometheus.NewPedanticRegistry().Register(newCollector(fixed{}, Options{Labels: prometheus.Labels{label: "x"}})))
	}
}

// A real client with a node that is down and one that answers errors; two
// clients in one registry; and no secret anywhere.
func TestOfARealClient(t *testing.T) {
	redistest.NoLeaks(t)
	d := redlocktest.New(t, 3, redlocktest.Password("hunter2"), redlocktest.MaxTTL(time.Hour))
	d.Node(2).Stop()
	client, other := d.Client(t, patient), d.Client(t, patient)
	lock, err := client.Acquire(t.Context(), "secret-resource", time.Minute)
	require.NoError(t, err)
	_, err = other.TryAcquire(t.Context(), "secret-resource", time.Minute)
	require.ErrorIs(t, err, redlock.ErrHeld)
	_, err = lock.Extend(t.Context(), time.Hour)
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))

	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(client, Options{Labels: prometheus.Labels{"client": "one"}}))
	registry.MustRegister(NewCollector(other, Options{Labels: prometheus.Labels{"client": "two"}}))
	got := gathered(t, registry)
	for _, line := range []string{
		`redlock_calls_total{call="attempt",client="one",outcome="granted"} 1`,
		`redlock_calls_total{call="extension",client="one",outcome="granted"} 1`,
		`redlock_calls_total{call="release",client="one",outcome="granted"} 1`,
		`redlock_calls_total{call="attempt",client="two",outcome="held"} 1`,
		`redlock_quorum_seconds_count{client="one"} 1`,
		`redlock_node_up{client="one",node="node0:6379"} 1`,
		`redlock_node_up{client="one",node="node2:6379"} 0`,
	} {
		require.Contains(t, got, line+"\n")
	}
	require.NoError(t, client.Close(t.Context()))
	got += gathered(t, registry)
	token := lock.Token()
	for _, secret := range []string{"secret-resource", "hunter2", string(token[:]), token.Fingerprint()} {
		require.NotContains(t, got, secret)
	}
}

// A scrape may run while the client works.
func TestWhileTheClientIsAtWork(t *testing.T) {
	d := redlocktest.New(t, 3, redlocktest.MaxTTL(time.Hour))
	client := d.Client(t, patient)
	collector := NewCollector(client, Options{})
	done := make(chan error)
	go func() {
		for range 200 {
			lock, err := client.Acquire(t.Context(), "r", time.Minute)
			if err == nil {
				err = lock.Release(t.Context())
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range 50 {
		require.Positive(t, testutil.CollectAndCount(collector))
	}
	require.NoError(t, <-done)
}

// patient makes a client wait for votes as long as a busy machine may take.
func patient(c *redlock.Config) { c.NodeTimeout = 30 * time.Second }

func text(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	return gathered(t, registry)
}

func gathered(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	var b bytes.Buffer
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&b, f)
		require.NoError(t, err)
	}
	return b.String()
}

// A registry, a client, and what a scrape shows.
func ExampleNewCollector() {
	d, err := redlocktest.Start(3) // or your own masters: redlock.Open("redis://…", …)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	client, err := redlock.New(context.Background(), d.Config())
	if err != nil {
		fmt.Println(err)
		return
	}

	defer client.Close(context.Background())

	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(client, Options{}))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()

	response, err := http.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), "quorum_nodes") {
			fmt.Println(lines.Text())
		}
	}
	// Output:
	// # HELP redlock_quorum_nodes How many nodes are a quorum of those configured.
	// # TYPE redlock_quorum_nodes gauge
	// redlock_quorum_nodes 2
}

// A collector shows nothing of its client's configuration when it is printed.
func TestACollectorShowsNoPassword_R27(t *testing.T) {
	const password = "hunter2hunter2"
	client := redlocktest.New(t, 1, redlocktest.Password(password)).Client(t)
	redistest.Specimen{Value: NewCollector(client, Options{})}.ShowsNone(t, password)
}

// What NewCollector has not made, and a nil client, panic with the package's
// name.
func TestZeroCollectorsAndNilClientsPanicWithThePackagesName(t *testing.T) {
	for name, f := range map[string]func(){
		"NewCollector": func() { NewCollector(nil, Options{}) },
		"nil":          func() { (*Collector)(nil).Collect(make(chan prometheus.Metric, 100)) },
		"zero":         func() { new(Collector).Collect(make(chan prometheus.Metric, 100)) },
		"described":    func() { (*Collector)(nil).Describe(make(chan *prometheus.Desc, 100)) },
	} {
		require.NotEmpty(t, redistest.FailsAtTheDoor(t, name, "redlockprometheus: ", f))
	}
}
