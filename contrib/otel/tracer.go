// Package redlockotel creates OpenTelemetry spans for the calls of a
// redlock.Client, and metrics of its numbers: see Observe.
//
//	client, err := redlock.New(ctx, redlock.Config{
//		Nodes:  nodes,
//		Tracer: redlockotel.NewTracer(redlockotel.Options{}),
//	})
//
// Each span is a child of the span in the context of the call, if there is one:
//
//	redlock.attempt   each single attempt, those of Acquire among them
//	redlock.acquire   each call to Acquire, Hold or Do until it has the lock or gives up, with redlock.tries
//	redlock.extend    each call to Extend, but no renewals of holds
//	redlock.release   each call to Release
//	redlock.lost      a hold that was lost, from its grant to its end; it has no parent
//
// The attributes are redlock.outcome (a word of redlock.Outcome, which the
// metrics have too), redlock.ttl_ms, redlock.validity_ms (if a lock is held
// afterwards), redlock.try, redlock.handed_over (of an attempt: another caller
// of the client handed its lock over, and no master was asked), redlock.tries
// and, only with Options.Resources, redlock.resource. Tokens and passwords are
// never in a span.
//
// A span has the status error, and error.type repeats the outcome, unless that
// is granted, cancelled or held: a lock that another client holds is ordinary.
// Attempts, extensions and releases are spans of kind client, the others are
// internal.
package redlockotel

import (
	"context"
	"strings"
	"time"

	"github.com/redmux/redmux/redlock"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Options configure a tracer. The zero value works.
type Options struct {
	// Provider creates the spans. If nil, OpenTelemetry's global provider at
	// the time of NewTracer.
	Provider trace.TracerProvider
	// Attributes are added to each span. If nil, none.
	Attributes []attribute.KeyValue
	// Resources adds the names of resources. Do not set it if a name may reveal
	// something confidential, such as a customer. Bytes that are not UTF-8 are
	// replaced. If zero, no span has a name.
	Resources bool
}

// name is the name of the instrumentation, in the form that OpenTelemetry
// wants.
const name = "github.com/redmux/redmux/contrib/otel"

// NewTracer creates a tracer for redlock.Config. It may serve several clients
// and does not need to be closed. A span is created and ended right before its
// call returns, so a provider with slow processors delays the caller: use a
// batching one. The caller may set NodeChanged in the tracer.
func NewTracer(options Options) *redlock.Tracer {
	if options.Provider == nil {
		options.Provider = otel.GetTracerProvider()
	}
	s := &spans{tracer: options.Provider.Tracer(name), options: options}
	return &redlock.Tracer{
		AttemptDone: s.attempt, AcquireDone: s.acquire, ExtendDone: s.extend, ReleaseDone: s.release, HoldLost: s.lost,
	}
}

type spans struct {
	tracer  trace.Tracer
	options Options
}

func (s *spans) attempt(ctx context.Context, i redlock.CallInfo) {
	s.span(ctx, "redlock.attempt", i.Resource, i.Start, i.Elapsed, i.Err, lockAttributes(
		i.TTL, i.Validity, attribute.Int("redlock.try", i.Tries), attribute.Bool("redlock.handed_over", i.HandedOver))...)
}

func (s *spans) acquire(ctx context.Context, i redlock.CallInfo) {
	s.span(ctx, "redlock.acquire", i.Resource, i.Start, i.Elapsed, i.Err, lockAttributes(
		i.TTL, i.Validity, attribute.Int("redlock.tries", i.Tries))...)
}

func (s *spans) extend(ctx context.Context, i redlock.CallInfo) {
	s.span(ctx, "redlock.extend", i.Resource, i.Start, i.Elapsed, i.Err,
		lockAttributes(i.TTL, i.Validity)...)
}

func (s *spans) release(ctx context.Context, i redlock.CallInfo) {
	s.span(ctx, "redlock.release", i.Resource, i.Start, i.Elapsed, i.Err)
}

func (s *spans) lost(i redlock.HoldInfo) {
	s.span(context.Background(), "redlock.lost", i.Resource, i.Since, i.Until.Sub(i.Since), i.Err)
}

func lockAttributes(ttl, validity time.Duration, more ...attribute.KeyValue) []attribute.KeyValue {
	more = append(more, attribute.Int64("redlock.ttl_ms", ttl.Milliseconds()))
	if validity > 0 {
		more = append(more, attribute.Int64("redlock.validity_ms", validity.Milliseconds()))
	}
	return more
}

// span records a span that has already ended.
func (s *spans) span(
	ctx context.Context, name, resource string, start time.Time, elapsed time.Duration,
	err error, attributes ...attribute.KeyValue,
) {
	_, span := s.tracer.Start(ctx, name, trace.WithTimestamp(start), trace.WithSpanKind(kindOf(name)))
	defer span.End(trace.WithTimestamp(start.Add(elapsed)))
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(s.options.Attributes...)
	span.SetAttributes(attributes...)
	outcome := redlock.Outcome(err)
	span.SetAttributes(attribute.String("redlock.outcome", outcome))
	if s.options.Resources {
		// Exporters refuse a whole batch for a text that is not UTF-8.
		span.SetAttributes(attribute.String("redlock.resource", strings.ToValidUTF8(resource, "\uFFFD")))
	}
	if text := description(outcome, err); text != "" {
		span.SetStatus(codes.Error, strings.ToValidUTF8(text, "\uFFFD"))
		span.SetAttributes(attribute.String("error.type", outcome)) // as the semantic conventions require
	}
}

// kindOf separates calls that asked the nodes from those that mostly waited.
// The requests of an acquisition belong to its attempts, and a lost hold has
// none.
func kindOf(name string) trace.SpanKind {
	switch name {
	case "redlock.acquire", "redlock.lost":
		return trace.SpanKindInternal
	}
	return trace.SpanKindClient
}

// description returns the text of an error, or "" if nothing is wrong. The
// errors of package redlock name nodes and causes, never a key, a token or a
// password (R27). The text of a cancellation includes the caller's own cause,
// so it is left out.
func description(outcome string, err error) string {
	switch outcome {
	case "granted", "cancelled", "held":
		return ""
	}
	return err.Error()
}
