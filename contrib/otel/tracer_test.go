package redlockotel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

const resource = "secret-resource"

// recorded runs a test in simulated time, with a client whose spans are
// recorded. The first span is the caller's own.
func recorded(t *testing.T, o Options, test func(ctx context.Context, d *redlocktest.Deployment, c *redlock.Client)) tracetest.SpanStubs {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	o.Provider = provider
	synctest.Test(t, func(t *testing.T) {
		d := redlocktest.New(t, 3, redlocktest.MaxTTL(time.Minute))
		for _, n := range d.Nodes() {
			n.Delay(4 * time.Millisecond)
		}
		c := d.Client(t, func(c *redlock.Config) { c.Tracer = NewTracer(o) })
		ctx, parent := provider.Tracer("test").Start(t.Context(), "parent")
		test(ctx, d, c)
		synctest.Wait()
		parent.End()
	})
	spans := exporter.GetSpans()
	require.NoError(t, provider.Shutdown(context.Background()))
	words := maps.Collect(redlock.CallCounts{}.All())
	words[redlock.Outcome(redlock.ErrLost)] = 0
	for _, s := range spans[:len(spans)-1] {
		require.Contains(t, words, attributesOf(s)["redlock.outcome"], "R12")
	}
	return spans
}

// attributesOf returns the attributes of a span as a map.
func attributesOf(s tracetest.SpanStub) map[string]any {
	all := make(map[string]any)
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

func TestSpansOfALock(t *testing.T) {
	var token redlock.Token
	spans := recorded(t, Options{Attributes: []attribute.KeyValue{attribute.String("service", "billing")}},
		func(ctx context.Context, _ *redlocktest.Deployment, c *redlock.Client) {
			lock, err := c.Acquire(ctx, resource, 10*time.Second)
			require.NoError(t, err)
			token = lock.Token()
			_, err = c.TryAcquire(ctx, resource, 10*time.Second)
			require.ErrorIs(t, err, redlock.ErrHeld)
			lock, err = lock.Extend(ctx, time.Minute)
			require.NoError(t, err)
			require.NoError(t, lock.Release(ctx))
			require.ErrorIs(t, lock.Release(ctx), redlock.ErrNotHeld)
		})
	require.Len(t, spans, 7)
	parent := spans[6]
	for i, want := range []struct {
		name, outcome string
		status        codes.Code
	}{
		{"redlock.attempt", "granted", codes.Unset}, {"redlock.acquire", "granted", codes.Unset},
		{"redlock.attempt", "held", codes.Unset}, {"redlock.extend", "granted", codes.Unset},
		{"redlock.release", "granted", codes.Unset}, {"redlock.release", "not_held", codes.Error},
	} {
		s := spans[i]
		require.Equal(t, want.name, s.Name)
		require.Equal(t, want.outcome, attributesOf(s)["redlock.outcome"])
		require.Equal(t, want.status, s.Status.Code, s.Status.Description)
		require.Equal(t, "billing", attributesOf(s)["service"])
		require.Equal(t, parent.SpanContext.SpanID(), s.Parent.SpanID())
		if want.name == "redlock.acquire" {
			require.Equal(t, trace.SpanKindInternal, s.SpanKind)
		} else {
			require.Equal(t, trace.SpanKindClient, s.SpanKind)
		}
		if want.status == codes.Error {
			require.Equal(t, want.outcome, attributesOf(s)["error.type"])
		} else {
			require.NotContains(t, attributesOf(s), "error.type")
		}
		require.Equal(t, 4*time.Millisecond, s.EndTime.Sub(s.StartTime).Round(time.Millisecond), "one round trip")
		require.NotContains(t, fmt.Sprintf("%+v", s), resource)
		require.NotContains(t, fmt.Sprintf("%+v", s), string(token[:]))
	}
	acquired := attributesOf(spans[1])
	require.EqualValues(t, 10_000, acquired["redlock.ttl_ms"])
	require.InDelta(t, 10_000-4-102, acquired["redlock.validity_ms"], 2)
	require.EqualValues(t, 1, acquired["redlock.tries"])
	require.EqualValues(t, 1, attributesOf(spans[0])["redlock.try"])
	require.NotContains(t, attributesOf(spans[2]), "redlock.validity_ms")
	require.EqualValues(t, 60_000, attributesOf(spans[3])["redlock.ttl_ms"])
}

// Of three callers of one client the second has waited for the masters, and the
// third is handed the lock.
func TestAHandOverIsSeenInItsSpan(t *testing.T) {
	spans := recorded(t, Options{}, func(ctx context.Context, _ *redlocktest.Deployment, c *redlock.Client) {
		first, err := c.TryAcquire(ctx, resource, 10*time.Second)
		require.NoError(t, err)
		done := make(chan error)
		for range 2 {
			go func() {
				done <- c.Do(ctx, resource, 10*time.Second, func(context.Context) error {
					time.Sleep(time.Millisecond)
					return nil
				})
			}()
			time.Sleep(10 * time.Millisecond)
		}
		require.NoError(t, first.Release(ctx))
		require.NoError(t, <-done)
		require.NoError(t, <-done)
	})
	var handed []any
	for _, s := range spans {
		if a := attributesOf(s); s.Name == "redlock.attempt" && a["redlock.outcome"] == "granted" {
			handed = append(handed, a["redlock.handed_over"])
		} else {
			require.NotEqual(t, true, a["redlock.handed_over"])
		}
	}
	require.Equal(t, []any{false, false, true}, handed)
}

func TestResourcesAreNamedWhereThatIsAskedFor(t *testing.T) {
	spans := recorded(t, Options{Resources: true}, func(ctx context.Context, _ *redlocktest.Deployment, c *redlock.Client) {
		_, err := c.TryAcquire(ctx, resource, 10*time.Second)
		require.NoError(t, err)
	})
	require.Equal(t, resource, attributesOf(spans[0])["redlock.resource"])
}

// A resource may have any bytes, and so may a socket's path in an error, but a
// span only UTF-8: otherwise an exporter loses all spans of its batch.
func TestSpansAreUTF8(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	NewTracer(Options{Provider: provider, Resources: true}).ReleaseDone(t.Context(), redlock.CallInfo{
		Resource: "a\xffb", Err: &redlock.ResourceError{Resource: "a", Err: errors.New("node c\xffd")},
	})
	span := exporter.GetSpans()[0]
	require.Equal(t, "a\uFFFDb", attributesOf(span)["redlock.resource"])
	require.True(t, utf8.ValidString(span.Status.Description), "%q", span.Status.Description)
	require.Contains(t, span.Status.Description, "node c\uFFFDd")
}

// Without a quorum, the span has each node's cause; so has the span of a lost
// hold.
func TestSpansOfWhatGoesWrong(t *testing.T) {
	spans := recorded(t, Options{}, func(ctx context.Context, d *redlocktest.Deployment, c *redlock.Client) {
		hold, err := c.Lock(resource).TryHold(ctx, redlock.HoldOptions{TTL: 10 * time.Second})
		require.NoError(t, err)
		d.Node(0).Stop()
		d.Node(1).Stop()
		time.Sleep(time.Second)
		_, err = c.TryAcquire(ctx, "another", 10*time.Second)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		<-hold.Context().Done()
		cancelled, cancel := context.WithTimeoutCause(ctx, time.Second, errors.New("hunter2"))
		defer cancel()
		_, err = c.Acquire(cancelled, "another", 10*time.Second)
		require.Error(t, err)
		require.Error(t, hold.Release(ctx))
	})
	byOutcome := make(map[string]tracetest.SpanStub)
	for _, s := range spans[:len(spans)-1] {
		byOutcome[s.Name+" "+fmt.Sprint(attributesOf(s)["redlock.outcome"])] = s
		require.NotContains(t, fmt.Sprintf("%+v", s), resource)
		require.NotContains(t, fmt.Sprintf("%+v", s), "hunter2", "a cancellation's cause is the caller's")
	}
	silent := byOutcome["redlock.attempt no_quorum"]
	require.Equal(t, codes.Error, silent.Status.Code)
	require.Contains(t, silent.Status.Description, "node0:6379")
	lost := byOutcome["redlock.lost lost"]
	require.Equal(t, codes.Error, lost.Status.Code)
	require.Contains(t, lost.Status.Description, "node1:6379")
	require.InDelta(t, 9.9, lost.EndTime.Sub(lost.StartTime).Seconds(), 0.1, "no renewal was granted")
	require.False(t, lost.Parent.IsValid())
	require.Equal(t, trace.SpanKindInternal, lost.SpanKind)
	require.Equal(t, codes.Unset, byOutcome["redlock.acquire cancelled"].Status.Code)
	require.Contains(t, byOutcome, "redlock.release no_quorum")
}

// Without a provider, the global one is used; a span that is not recorded costs
// no attributes.
func TestTheGlobalProvider(t *testing.T) {
	before := otel.GetTracerProvider()
	defer otel.SetTracerProvider(before)
	exporter := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	start := time.Now().Add(-time.Hour)
	NewTracer(Options{}).ReleaseDone(context.Background(), redlock.CallInfo{Resource: resource, Start: start, Elapsed: time.Second})
	require.Len(t, exporter.GetSpans(), 1)
	require.WithinDuration(t, start, exporter.GetSpans()[0].StartTime, 0)
	require.Equal(t, time.Second, exporter.GetSpans()[0].EndTime.Sub(start), "it ended when the call did")

	never := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithSampler(sdktrace.NeverSample()))
	NewTracer(Options{Provider: never}).ReleaseDone(t.Context(), redlock.CallInfo{Resource: resource})
	require.Len(t, exporter.GetSpans(), 1)
}

// A client's spans, as an exporter gets them.
func ExampleNewTracer() {
	exporter := tracetest.NewInMemoryExporter() // or the exporter of your backend, with sdktrace.WithBatcher
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	ctx := context.Background()
	defer provider.Shutdown(ctx)

	d, err := redlocktest.Start(3) // or your own masters
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	config := d.Config()
	config.NodeTimeout = 5 * time.Second // because this test may run on a busy machine
	config.Tracer = NewTracer(Options{Provider: provider})
	client, err := redlock.New(context.Background(), config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	lock, err := client.Acquire(ctx, "invoice:7", 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	lock.Release(ctx)
	for _, span := range exporter.GetSpans() {
		for _, a := range span.Attributes {
			if a.Key == "redlock.outcome" {
				fmt.Println(span.Name, a.Value.AsString())
			}
		}
	}
	// Output:
	// redlock.attempt granted
	// redlock.acquire granted
	// redlock.release granted
}
