package redlockotel

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Holds, losses, waits and outcomes are metrics too, with the names that spans
// and Stats have, and without resources and passwords.
func TestMetricsOfHoldsLossesAndWaits_R12_R27(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3)
		client := d.Client(t)
		reader := sdkmetric.NewManualReader()
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		registered, err := Observe(client, MetricOptions{
			Provider: provider, Attributes: []attribute.KeyValue{attribute.String("deployment", "billing")},
		})
		require.NoError(t, err)
		hold, err := client.Hold(t.Context(), resource, redlock.HoldOptions{TTL: 10 * time.Second})
		require.NoError(t, err)
		_, err = client.TryAcquire(t.Context(), resource, time.Second)
		require.ErrorIs(t, err, redlock.ErrHeld)
		short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = client.Acquire(short, resource, time.Second)
		require.Error(t, err)

		got := collect(t, reader)
		require.EqualValues(t, 1, got["redlock.holds"])
		require.EqualValues(t, 1, got["redlock.holds_begun"])
		require.EqualValues(t, 0, got["redlock.lost not_held"])
		require.EqualValues(t, 0, got["redlock.lost expired"])
		require.EqualValues(t, 2, got["redlock.waits"])
		require.InDelta(t, 3, got["redlock.wait_time"], 0.1)
		require.EqualValues(t, 1, got["redlock.calls attempt granted"])
		require.Positive(t, got["redlock.calls attempt held"])
		words := maps.Collect(redlock.CallCounts{}.All())
		for name := range got {
			if of := strings.Fields(name); of[0] == "redlock.calls" || of[0] == "redlock.lost" {
				require.Contains(t, words, of[len(of)-1], name)
			}
		}

		for i := range 3 {
			d.Node(i).Pause()
		}
		<-hold.Context().Done()
		for i := range 3 {
			d.Node(i).Continue()
		}
		got = collect(t, reader)
		require.EqualValues(t, 0, got["redlock.lost not_held"])
		require.EqualValues(t, 1, got["redlock.lost expired"])
		require.EqualValues(t, 0, got["redlock.elections_led"])
		require.EqualValues(t, 0, got["redlock.elections_lost"])
		require.EqualValues(t, 1, got["redlock.holds"], "it is not released yet")
		// A renewal that the nodes execute late may have kept the keys: then the
		// release finds them.
		_ = hold.Release(t.Context())
		require.EqualValues(t, 0, collect(t, reader)["redlock.holds"])
		require.NoError(t, registered.Unregister())
		redistest.Specimen{Value: &observer{client: client}}.ShowsNone(t, resource)
	})
}

// collect returns the numbers by the names of the metrics, with the call and
// the outcome.
func collect(t *testing.T, reader sdkmetric.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	got := make(map[string]float64)
	note := func(name string, of attribute.Set, n float64) {
		deployment, _ := of.Value("deployment")
		require.Equal(t, "billing", deployment.AsString())
		if call, ok := of.Value("redlock.call"); ok {
			outcome, _ := of.Value("redlock.outcome")
			name += " " + call.AsString() + " " + outcome.AsString()
		}
		if cause, ok := of.Value("redlock.cause"); ok {
			name += " " + cause.AsString()
		}
		got[name] = n
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					note(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					note(m.Name, p.Attributes, p.Value)
				}
			}
		}
	}
	return got
}

// A nil client panics with the package's name, at once and not when metrics are
// collected.
func TestObserveOfNoClientPanicsWithThePackagesName(t *testing.T) {
	require.NotEmpty(t, redistest.FailsAtTheDoor(t, "Observe", "redlockotel: ", func() { _, _ = Observe(nil, MetricOptions{}) }))
}
