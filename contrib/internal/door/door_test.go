package door_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/redmux/redmux/contrib/certmagiclock"
	"github.com/redmux/redmux/contrib/cronlock"
	"github.com/redmux/redmux/contrib/fencing"
	"github.com/redmux/redmux/contrib/gocronlock"
	"github.com/redmux/redmux/contrib/httplock"
	"github.com/redmux/redmux/internal/redistest"
	"github.com/redmux/redmux/redlock"
	"github.com/redmux/redmux/redlocktest"
	"github.com/stretchr/testify/require"
)

type unlocker interface {
	Unlock(ctx context.Context) error
}

// What no function of an adapter has made, and a nil context, client or
// function, fail at the door: a call returns, or it panics with the package's
// name. A new type needs a specimen here.
func TestZeroValuesAndNilContextsPanicWithThePackagesName(t *testing.T) {
	client := redlocktest.New(t, 1).Client(t, func(c *redlock.Config) { c.Fenced, c.Owner = true, "web-1" })
	cron, err := cronlock.New(client, cronlock.Options{})
	require.NoError(t, err)
	gocron, err := gocronlock.NewLocker[unlocker](client, gocronlock.Options{})
	require.NoError(t, err)
	certs, err := certmagiclock.New(client, certmagiclock.Options{})
	require.NoError(t, err)
	elector, err := gocronlock.NewElector(t.Context(), client, "e", gocronlock.Options{})
	require.NoError(t, err)
	defer elector.Close(context.Background())
	held, err := gocron.Lock(t.Context(), "job")
	require.NoError(t, err)
	defer func() { require.NoError(t, held.Unlock(t.Context())) }()
	one, err := httplock.New(client, httplock.Options{Key: func(*http.Request) string { return "" }})
	require.NoError(t, err)

	var none context.Context
	for name, of := range map[string]struct {
		zero  map[string][]any
		made  []any
		calls map[string]func()
	}{
		"cronlock": {
			map[string][]any{"Locker": {(*cronlock.Locker)(nil), new(cronlock.Locker)}, "Job": {(*cronlock.Job)(nil), new(cronlock.Job)}},
			[]any{cron},
			map[string]func(){
				"New":         func() { _, _ = cronlock.New(nil, cronlock.Options{}) },
				"no function": func() { cron.Job(t.Context(), "j", nil) },
			},
		},
		"gocronlock": {
			map[string][]any{
				"Locker":   {(*gocronlock.Locker[unlocker])(nil), new(gocronlock.Locker[unlocker])},
				"Elector":  {(*gocronlock.Elector)(nil), new(gocronlock.Elector)},
				"Unlocker": nil,
			},
			[]any{gocron, held},
			map[string]func(){
				"NewLocker":  func() { _, _ = gocronlock.NewLocker[unlocker](nil, gocronlock.Options{}) },
				"NewElector": func() { _, _ = gocronlock.NewElector(none, client, "e", gocronlock.Options{}) },
				"no client":  func() { _, _ = gocronlock.NewElector(t.Context(), nil, "e", gocronlock.Options{}) },
				"Close":      func() { _ = elector.Close(none) },
			},
		},
		"certmagiclock": {
			map[string][]any{"Locker": {(*certmagiclock.Locker)(nil), new(certmagiclock.Locker)}},
			[]any{certs},
			map[string]func(){"New": func() { _, _ = certmagiclock.New(nil, certmagiclock.Options{}) }},
		},
		"httplock": {
			nil, nil,
			map[string]func(){"New": func() { _, _ = httplock.New(nil, httplock.Options{}) }, "no handler": func() { one(nil) }},
		},
		"fencing": {
			nil, nil,
			map[string]func(){
				"SetHeader":   func() { _ = fencing.SetHeader(nil) },
				"FromContext": func() { _, _ = fencing.FromContext(none) },
				"Changed":     func() { _ = fencing.Changed(nil, nil) },
				"WriteObject": func() { _ = fencing.WriteObject(none, 1, nil, nil) },
				"no function": func() { _ = fencing.WriteObject(t.Context(), 1, nil, nil) },
			},
		},
	} {
		prefix := name + ": "
		for _, exported := range redistest.ExportedTypes(t, "../../"+name) {
			if _, there := of.zero[exported]; exported != "Options" && !there {
				t.Errorf("%s.%s needs a specimen", name, exported)
			}
		}
		for _, all := range of.zero {
			for _, v := range all {
				redistest.MethodsFailAtTheDoor(t, prefix, v, nil, false)
				redistest.MethodsFailAtTheDoor(t, prefix, v, t.Context(), false)
			}
		}
		for _, v := range of.made {
			redistest.MethodsFailAtTheDoor(t, prefix, v, nil, true)
		}
		for call, f := range of.calls {
			require.NotEmpty(t, redistest.FailsAtTheDoor(t, call, prefix, f), "%s%s must panic", prefix, call)
		}
	}
}
