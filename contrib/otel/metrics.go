package redlockotel

import (
	"context"

	"github.com/redmux/redmux/redlock"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// MetricOptions configure Observe. The zero value works.
type MetricOptions struct {
	// Provider makes the instruments. If nil, OpenTelemetry's global provider at
	// the time of Observe.
	Provider metric.MeterProvider
	// Attributes are added to each number; they must distinguish the clients of
	// one process. If nil, none.
	Attributes []attribute.KeyValue
}

// Observe registers these metrics of a client, which are read from Client.Stats
// when they are collected:
//
//	redlock.calls           attempts, extensions and releases, by redlock.call and redlock.outcome
//	redlock.handed_over     granted attempts that asked no node
//	redlock.holds           holds that are not released
//	redlock.holds_begun     holds that there were, released or not
//	redlock.lost            holds that were lost, by redlock.cause: not_held or expired
//	redlock.elections_led   terms that candidates have led
//	redlock.elections_lost  terms that ended by a loss, which redlock.lost has too
//	redlock.waits           calls to Acquire, Hold and Do, granted or not
//	redlock.wait_time       the sum of their waits, in seconds
//
// The outcomes are those of the spans. No attribute contains the name of a
// resource. The caller unregisters the result when the client is closed.
func Observe(client *redlock.Client, options MetricOptions) (metric.Registration, error) {
	if client == nil {
		panic("redlockotel: the client is nil")
	}
	if options.Provider == nil {
		options.Provider = otel.GetMeterProvider()
	}
	o := observer{client: client, own: options.Attributes}
	meter := options.Provider.Meter(name)
	for _, c := range []struct {
		to                *metric.Int64ObservableCounter
		name, unit, about string
	}{
		{&o.calls, "redlock.calls", "{call}", "Attempts, extensions and releases, by outcome."},
		{&o.handedOver, "redlock.handed_over", "{attempt}", "Granted attempts that asked no node."},
		{&o.holdsBegun, "redlock.holds_begun", "{hold}", "Holds that there were, released or not."},
		{&o.lost, "redlock.lost", "{hold}", "Holds that were lost, by cause."},
		{&o.led, "redlock.elections_led", "{term}", "Terms that candidates have led."},
		{&o.ledLost, "redlock.elections_lost", "{term}", "Terms that ended by a loss."},
		{&o.waits, "redlock.waits", "{call}", "Calls to Acquire, Hold and Do, granted or not."},
	} {
		var err error
		if *c.to, err = meter.Int64ObservableCounter(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.about)); err != nil {
			return nil, err
		}
	}
	var err error
	if o.holds, err = meter.Int64ObservableUpDownCounter("redlock.holds",
		metric.WithUnit("{hold}"), metric.WithDescription("Holds that are not released.")); err != nil {
		return nil, err
	}
	if o.waitTime, err = meter.Float64ObservableCounter("redlock.wait_time",
		metric.WithUnit("s"), metric.WithDescription("The sum of the waits of these calls.")); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(o.observe, o.calls, o.handedOver, o.holdsBegun, o.lost, o.led, o.ledLost, o.waits, o.holds, o.waitTime)
}

// An observer reads a client's numbers.
type observer struct {
	client                                                   *redlock.Client
	own                                                      []attribute.KeyValue
	calls, handedOver, holdsBegun, lost, led, ledLost, waits metric.Int64ObservableCounter
	holds                                                    metric.Int64ObservableUpDownCounter
	waitTime                                                 metric.Float64ObservableCounter
}

func (o *observer) observe(_ context.Context, to metric.Observer) error {
	stats := o.client.Stats()
	for call, counts := range map[string]redlock.CallCounts{
		"attempt": stats.Attempts, "extension": stats.Extensions, "release": stats.Releases,
	} {
		for outcome, n := range counts.All() {
			to.ObserveInt64(o.calls, int64(n), metric.WithAttributes(o.own...), metric.WithAttributes(
				attribute.String("redlock.call", call), attribute.String("redlock.outcome", outcome)))
		}
	}
	own := metric.WithAttributes(o.own...)
	to.ObserveInt64(o.handedOver, int64(stats.HandedOver), own)
	to.ObserveInt64(o.holds, int64(stats.Holds), own)
	to.ObserveInt64(o.holdsBegun, int64(stats.HoldsBegun), own)
	for cause, n := range stats.Losses() {
		to.ObserveInt64(o.lost, int64(n), own, metric.WithAttributes(attribute.String("redlock.cause", cause)))
	}
	to.ObserveInt64(o.led, int64(stats.ElectionsLed), own)
	to.ObserveInt64(o.ledLost, int64(stats.ElectionsLost), own)
	to.ObserveInt64(o.waits, int64(stats.Waits.Total()), own)
	to.ObserveFloat64(o.waitTime, stats.Waits.Sum.Seconds(), own)
	return nil
}
